//! A multilayer perceptron: two hidden layers with ReLU and a linear output.

use candle_core::{DType, Device, Result, Shape, Tensor, Var};
use candle_nn::{Linear, Module};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Layers of every network: two hidden and the output (Haarnoja et al., table 1).
pub(super) const LAYERS: usize = 3;

/// Weights and biases, layer by layer.
#[derive(Debug)]
pub(super) struct Mlp {
    layers: Vec<Linear>,
}

/// Shapes of a network's layers, `[outputs, inputs]` each.
pub(super) fn shapes(inputs: usize, hidden: usize, outputs: usize) -> [[usize; 2]; LAYERS] {
    [[hidden, inputs], [hidden, hidden], [outputs, hidden]]
}

impl Mlp {
    /// A trainable network with fresh weights, and the variables that an optimiser changes.
    ///
    /// Weights and biases are uniform within 1/sqrt(inputs), PyTorch's initial values for linear
    /// layers, which Stable-Baselines3 keeps.
    pub(super) fn fresh(
        shapes: [[usize; 2]; LAYERS],
        rng: &mut ChaCha8Rng,
    ) -> Result<(Self, Vec<Var>)> {
        let mut parts = Vec::new();
        for [outputs, inputs] in shapes {
            let bound = (inputs as f32).sqrt().recip();
            let mut draw = |shape: &[usize]| {
                let count = shape.iter().product();
                let numbers = (0..count).map(|_| rng.random_range(-bound..bound)).collect();
                Tensor::from_vec::<_, f32>(numbers, shape, &Device::Cpu)
            };
            parts.push((draw(&[outputs, inputs])?, draw(&[outputs])?));
        }
        Self::trainable(&parts)
    }

    /// A trainable network that starts from the given weights and biases.
    pub(super) fn trainable(parts: &[(Tensor, Tensor)]) -> Result<(Self, Vec<Var>)> {
        let mut layers = Vec::with_capacity(parts.len());
        let mut variables = Vec::with_capacity(2 * parts.len());
        for (weight, bias) in parts {
            let (weight, bias) = (Var::from_tensor(weight)?, Var::from_tensor(bias)?);
            layers.push(Linear::new(weight.as_tensor().clone(), Some(bias.as_tensor().clone())));
            variables.extend([weight, bias]);
        }
        Ok((Self { layers }, variables))
    }

    /// A network that receives no gradient and starts from the given weights and biases.
    pub(super) fn fixed(parts: &[(Tensor, Tensor)]) -> Result<Self> {
        let layer = |(weight, bias): &(Tensor, Tensor)| {
            Ok(Linear::new(weight.copy()?.detach(), Some(bias.copy()?.detach())))
        };
        Ok(Self { layers: parts.iter().map(layer).collect::<Result<_>>()? })
    }

    /// The network's output for each row of `input`.
    pub(super) fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let mut value = input.clone();
        for (index, layer) in self.layers.iter().enumerate() {
            value = layer.forward(&value)?;
            if index + 1 < self.layers.len() {
                value = value.relu()?;
            }
        }
        Ok(value)
    }

    /// Weights and biases, as the optimiser knows them.
    pub(super) fn weights(&self) -> impl Iterator<Item = &Tensor> {
        self.layers.iter().flat_map(|layer| std::iter::once(layer.weight()).chain(layer.bias()))
    }

    /// Weights and biases, layer by layer, detached from any gradient.
    pub(super) fn parts(&self) -> Vec<(Tensor, Tensor)> {
        let part = |layer: &Linear| {
            let bias = layer.bias().map(Tensor::detach);
            bias.map(|bias| (layer.weight().detach(), bias))
        };
        self.layers.iter().filter_map(part).collect()
    }

    /// Moves the weights towards those of `other`, by the share `tau` of the distance.
    pub(super) fn follow(&mut self, other: &Self, tau: f64) -> Result<()> {
        let blend = |mine: &Tensor, theirs: &Tensor| {
            mine.affine(1.0 - tau, 0.0)? + theirs.affine(tau, 0.0)?
        };
        let mut layers = Vec::with_capacity(self.layers.len());
        for ((weight, bias), (weight_to, bias_to)) in self.parts().iter().zip(other.parts()) {
            layers.push(Linear::new(blend(weight, &weight_to)?, Some(blend(bias, &bias_to)?)));
        }
        self.layers = layers;
        Ok(())
    }
}

/// A column of numbers, one row each.
pub(super) fn column(numbers: Vec<f32>) -> Result<Tensor> {
    let rows = numbers.len();
    Tensor::from_vec(numbers, (rows, 1), &Device::Cpu)
}

/// The one number of a tensor that holds one.
pub(super) fn number(tensor: &Tensor) -> Result<f32> {
    debug_assert_eq!(tensor.dtype(), DType::F32);
    tensor.reshape(Shape::from(()))?.to_scalar()
}
