//! The program `dikala`.

use std::process::ExitCode;

use dikala::cli;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    rustls::crypto::ring::default_provider()
        .install_default()
        .expect("nothing installs a provider before main does");
    let done =
        cli::parse().and_then(|command| actix_web::rt::System::new().block_on(cli::run(command)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.print(cli::wants_json());
            ExitCode::from(error.code())
        }
    }
}
