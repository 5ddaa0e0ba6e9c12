//! The program `dikala`.

use std::process::ExitCode;

use clap::Parser;
use dikala::cli::{self, Cli, CliError};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    rustls::crypto::ring::default_provider()
        .install_default()
        .expect("nothing installs a provider before main does");
    match actix_web::rt::System::new().block_on(cli::run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(CliError::Shown) => ExitCode::from(CliError::Shown.code()),
        Err(error) => {
            eprintln!("dikala: {error}");
            ExitCode::from(error.code())
        }
    }
}
