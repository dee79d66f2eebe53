//! Tests of formulas against numbers that are computed in another way.

use candle_core::{Device, Tensor};

use crate::sac::critic::soft_target;
use crate::sac::mlp::{Mlp, column};
use crate::sac::policy::sample;
use crate::sac::replay::Batch;

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn soft_bellman_target_matches_hand_computation() {
    let zeros = Tensor::zeros((2, 3), candle_core::DType::F32, &Device::Cpu).unwrap();
    let batch = Batch {
        states: zeros.clone(),
        actions: column(vec![0.0, 0.0]).unwrap(),
        rewards: column(vec![0.5, -1.0]).unwrap(),
        next: zeros,
        goes_on: column(vec![1.0, 0.0]).unwrap(),
    };
    let next_q = column(vec![2.0, 3.0]).unwrap();
    let log_density = column(vec![-1.5, 0.5]).unwrap();
    let target = soft_target(&batch, &next_q, &log_density, 0.9, 0.2).unwrap();
    // 0.5 + 0.9 * (2 + 0.2 * 1.5) = 2.57; the second transition was the last.
    for (found, expected) in numbers(&target).into_iter().zip([2.57, -1.0]) {
        assert!((found - expected).abs() < 1e-6, "{found} instead of {expected}");
    }
}

/// Log density of a = tanh(u) by the closed formula in f64, without the stable rewriting.
fn closed_formula(mean: f64, log_std: f64, noise: f64) -> (f64, f64) {
    let std = log_std.exp();
    let u = mean + std * noise;
    let gaussian =
        (-0.5 * ((u - mean) / std).powi(2)).exp() / (std * (2.0 * std::f64::consts::PI).sqrt());
    (u.tanh(), gaussian.ln() - (1.0 - u.tanh().powi(2)).ln())
}

#[test]
fn log_density_matches_the_closed_formula() {
    let cases = [(0.0, 0.0, 0.0), (0.3, -1.0, 0.7), (-1.2, 0.5, -1.1), (2.0, -2.0, 1.5)];
    let of = |pick: fn(&(f64, f64, f64)) -> f64| {
        column(cases.iter().map(|case| pick(case) as f32).collect()).unwrap()
    };
    let (actions, log_densities) = sample(&of(|c| c.0), &of(|c| c.1), &of(|c| c.2)).unwrap();
    for (index, (mean, log_std, noise)) in cases.into_iter().enumerate() {
        let (action, log_density) = closed_formula(mean, log_std, noise);
        assert!((f64::from(numbers(&actions)[index]) - action).abs() < 1e-6);
        assert!((f64::from(numbers(&log_densities)[index]) - log_density).abs() < 1e-5);
    }
}

#[test]
fn log_density_stays_finite_near_one() {
    let (action, log_density) = sample(
        &column(vec![40.0]).unwrap(),
        &column(vec![0.0]).unwrap(),
        &column(vec![0.0]).unwrap(),
    )
    .unwrap();
    assert_eq!(numbers(&action), [1.0]);
    // -ln sqrt(2 pi) - 2 (ln 2 - 40)
    let expected = -0.918_938_5 - 2.0 * (std::f32::consts::LN_2 - 40.0);
    assert!((numbers(&log_density)[0] - expected).abs() < 1e-4);
}

#[test]
fn log_density_gradient_matches_difference_quotient() {
    let at = |mean: f64| closed_formula(mean, -0.5, 0.8).1;
    let mean = candle_core::Var::from_tensor(&column(vec![0.4]).unwrap()).unwrap();
    let (_, log_density) =
        sample(mean.as_tensor(), &column(vec![-0.5]).unwrap(), &column(vec![0.8]).unwrap())
            .unwrap();
    let gradients = log_density.backward().unwrap();
    let found = f64::from(numbers(gradients.get(&mean).unwrap())[0]);
    let expected = (at(0.4 + 1e-6) - at(0.4 - 1e-6)) / 2e-6;
    assert!((found - expected).abs() < 1e-4, "{found} instead of {expected}");
}

#[test]
fn target_moves_by_its_soft_rate() {
    let constant = |number: f32| {
        let weight = Tensor::full(number, (1, 1), &Device::Cpu).unwrap();
        [(weight, Tensor::full(number, 1, &Device::Cpu).unwrap())]
    };
    let mut target = Mlp::fixed(&constant(1.0)).unwrap();
    target.follow(&Mlp::fixed(&constant(3.0)).unwrap(), 0.25).unwrap();
    for weight in target.weights() {
        assert_eq!(numbers(weight), [1.5]);
    }
}
