//! `tierwised`: shares this host's tiered memory among its tenants.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use clap::Parser;
use crossbeam_channel::{bounded, unbounded};
use tierwise_core::config::ConfigError as RecipeError;
use tierwise_linux::roots::Roots;
use tierwised::args::Args;
use tierwised::config::{Config, DEFAULT_FILE, DaemonConfigError};
use tierwised::control::Accepted;
use tierwised::judgement::EngineRefusal;
use tierwised::pods::SharedPods;
use tierwised::run::{Daemon, DaemonChannels, Options};
use tierwised::system::optional::{Optional, Unavailable};
use tierwised::tenants::{TenantBoard, TenantSocket};
use tierwised::view::Snapshot;
use tierwised::{control, cri, http, nri, system};
use tokio::sync::watch;

/// Exit code for the user's mistakes, the same as that of the `tierwise` command.
const USER_MISTAKE: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    system::log::start();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{e:#}");
            // Floors that do not fit this machine, a policy whose signals are not available here,
            // and a recipe file with a mistake are mistakes of the configuration as well.
            let mistake =
                e.is::<DaemonConfigError>() || e.is::<EngineRefusal>() || e.is::<RecipeError>();
            if mistake { ExitCode::from(USER_MISTAKE) } else { ExitCode::FAILURE }
        }
    }
}

fn run(args: Args) -> anyhow::Result<()> {
    let standard = PathBuf::from(DEFAULT_FILE);
    let file = args.config.or_else(|| standard.exists().then_some(standard));
    let config = file.as_deref().map_or_else(|| Ok(Config::default()), Config::read)?;
    let (sender, requests) = unbounded();
    let (waker, wake) = bounded(1);
    let stop = Arc::new(AtomicBool::new(false));
    let (views, _) = watch::channel(Arc::new(Snapshot::default()));
    let unavailable = Unavailable::default();
    let control = config.control.clone();
    let listen = config.http.listen.clone();
    if let Err(e) = system::descriptors::raise_limit() {
        tracing::warn!(
            "cannot raise the limit of open files: {e}; see LimitNOFILE= in tierwised.service"
        );
    }
    let missing = system::privilege::drop_others(&config).context("cannot drop capabilities")?;
    if !missing.is_empty() {
        let missing = missing.join(", ");
        tracing::warn!(
            "runs without {missing} and can do little: start it as root, as its systemd unit does"
        );
    }
    let roots = args.root.map_or_else(Roots::default, Roots::under);
    system::memory::leave_fast_tier(&config, &roots);
    let serve = |path: &Path, accepted| {
        control::ControlServer::start(path, accepted, sender.clone(), waker.clone())
    };
    let _control = serve(&control.socket, Accepted::All)?;
    let claims = config.kubernetes.claims_socket().map(Path::new);
    let _claims = claims.map(|path| serve(path, Accepted::Claims)).transpose()?;
    let tenants = TenantBoard::default();
    let _tenants = match control.tenants_socket().map(PathBuf::from) {
        None => None,
        Some(path) => {
            let board = tenants.clone();
            let attempt = move || TenantSocket::start(&path, board.clone());
            Some(Optional::start("tenants", &unavailable, attempt)?)
        }
    };
    let queue = control.queue().map(str::to_owned).map(|name| {
        let (sender, waker) = (sender.clone(), waker.clone());
        let attempt = move || control::Listener::start(&name, sender.clone(), waker.clone());
        Optional::start("queue", &unavailable, attempt)
    });
    let _queue = queue.transpose()?;
    let _http = match listen.as_str() {
        "off" => None,
        address => {
            let (address, views, waker) = (address.parse()?, views.clone(), waker.clone());
            let attempt =
                move || http::HttpServer::start(address, views.subscribe(), waker.clone());
            Some(Optional::start("http", &unavailable, attempt)?)
        }
    };
    let _metrics = match config.metrics.open() {
        None => None,
        Some((address, token)) => {
            let (token, views, waker) = (token.to_owned(), views.clone(), waker.clone());
            let attempt =
                move || http::HttpServer::export(address, &token, views.subscribe(), waker.clone());
            Some(Optional::start("metrics", &unavailable, attempt)?)
        }
    };
    let pods = SharedPods::default();
    let _nri = match config.kubernetes.nri_socket().map(PathBuf::from) {
        None => None,
        Some(socket) => {
            let pods = pods.clone();
            let attempt = move || nri::NriLink::start(&socket, pods.clone());
            Some(Optional::start("nri", &unavailable, attempt)?)
        }
    };
    let _cri = match config.kubernetes.cri_socket().map(PathBuf::from) {
        None => None,
        Some(socket) => {
            let pods = pods.clone();
            let attempt = move || cri::CriLink::start(&socket, pods.clone());
            Some(Optional::start("cri", &unavailable, attempt)?)
        }
    };
    system::signal::start(sender, waker.clone(), Arc::clone(&stop))?;
    let options = Options { config, file, roots, dry_run: args.dry_run };
    let channels =
        DaemonChannels { requests, wake, waker, stop, views, unavailable, pods, tenants };
    let daemon = Daemon::new(options, channels)?;
    // Outside systemd no process listens.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    daemon.run();
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    Ok(())
}
