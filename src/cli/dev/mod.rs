//! `dikala dev`: the whole service with demo data on an embedded database, a webhook receiver and a simulated
//! bridge that places calls. Later starts keep data and key.

mod callers;
pub mod demo;
mod receiver;
mod telephone;

use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use dikala_actors::runtime::clock::{Clock, SystemClock};
use dikala_entities::{Secret, Store, TenantId, Vault};

use self::{demo::Demo, receiver::DemoReceiver};
use crate::{
    app::{App, ServiceStartError, open_store, wait_for_signal},
    cli::CliError,
    config::{ConfigOrigin, Layers, Settings},
    front::raise_open_files,
    operations::members::SignInLink,
    telemetry,
};

/// Options of `dikala dev`.
#[derive(Debug, Args)]
pub struct DevOptions {
    /// Where the data is kept.
    #[arg(long, value_name = "DIR", default_value = "./dikala-data")]
    data: PathBuf,
    /// The public address; port 0 picks a free one.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Place no calls by itself.
    #[arg(long)]
    no_calls: bool,
}

pub async fn run(options: DevOptions, mut layers: Layers) -> Result<(), CliError> {
    fs::create_dir_all(&options.data).map_err(|error| unwritable(&options.data, &error))?;
    let settings = configure(&options, &mut layers)?;
    telemetry::init(&settings.log);
    raise_open_files();
    let vault = settings.vault()?;
    let socket = TcpListener::bind("127.0.0.1:0")
        .map_err(|e| CliError::Failed(format!("the demo receiver cannot listen: {e}")))?;
    let receiver = socket
        .local_addr()
        .map_err(|e| CliError::Failed(e.to_string()))?;
    // Only checks that no other process serves the database: the demo's webhook must not be redirected under a
    // running `dev`.
    drop(Store::reserve(&settings.database.url).map_err(ServiceStartError::from)?);
    let store = open_store(&settings, true).await?;
    let demo = Demo::prepare(
        &store,
        &vault,
        &options.data.join("demo.json"),
        receiver,
        SystemClock.now(),
    )
    .await?;
    let functions = demo.function_secret(&store, &vault);
    let functions = functions.await?;
    store.close().await;
    let webhook_secret = demo.webhook_secret();
    let receiving = DemoReceiver { webhook_secret }
        .serve(socket)
        .map_err(|e| CliError::Failed(format!("the demo receiver did not start: {e}")))?;
    let receiving_handle = receiving.handle();
    actix_web::rt::spawn(receiving);
    let app = App::build(&settings, vault, Arc::new(SystemClock)).await;
    let app = app.map_err(with_hint)?;
    // Installed before the welcome is printed: a reader of it may send the signal at once.
    let stop = wait_for_signal();
    let base = settings.http.base(app.public_addr());
    let links = demo.links(app.store(), &base).await?;
    let telephone = telephone::welcome(&app, &layers);
    let welcome = welcome(
        &demo, &links, &functions, &app, &telephone, receiver, &options,
    );
    crate::cli::print(&welcome)?;
    let calls = !options.no_calls;
    let public = app.public_addr();
    app.run_until(async {
        if calls {
            // On Ctrl-C the callers hang up first; then the service stops.
            callers::place_calls(public, demo, stop).await;
        } else {
            stop.await;
        }
    })
    .await;
    receiving_handle.stop(false).await;
    Ok(())
}

/// Settings that differ from `serve`: store and key are in the data folder, and tenants' servers may be on this
/// machine.
fn configure(options: &DevOptions, layers: &mut Layers) -> Result<Settings, CliError> {
    let database = format!("sqlite://{}", options.data.join("dikala.db").display());
    layers.set_from_command("database.url", &database)?;
    layers.set_from_command("database.migrate", "true")?;
    layers.set_from_command("outbound.allow_http", "true")?;
    layers.set_from_command("outbound.allow_cidrs", "127.0.0.0/8,::1/128")?;
    let key = secrets_key(
        &options.data.join("secrets.key"),
        options.data.join("dikala.db").exists(),
    )?;
    layers.set_from_command("secrets.key", &key)?;
    if let Some(listen) = options.listen {
        layers.set_from_command("http.listen", &listen.to_string())?;
        if *layers.origin("operator.listen") == ConfigOrigin::Default {
            // Lets a second service run beside the first.
            layers.set_from_command("operator.listen", "127.0.0.1:0")?;
        }
    }
    if *layers.origin("log.level") == ConfigOrigin::Default {
        layers.set_from_command("log.level", "warn")?;
    }
    telephone::configure(layers)?;
    let mut settings = Settings::new(layers)?;
    settings.may_ask_itself = true;
    Ok(settings)
}

/// The key that encrypts the demo's secrets. The first start creates it beside the data.
fn secrets_key(path: &Path, data_there: bool) -> Result<String, CliError> {
    match fs::read_to_string(path) {
        Ok(key) => Ok(key.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if data_there {
                return Err(CliError::Failed(format!(
                    "{} is missing, and the data beside it does not open without; put it back, or start anew with another --data",
                    path.display()
                )));
            }
            let key = Vault::generate_key();
            write_private(path, &key).map_err(|error| unwritable(path, &error))?;
            Ok(key)
        }
        Err(error) => Err(CliError::Failed(format!(
            "{} cannot be read: {error}",
            path.display()
        ))),
    }
}

/// Writes a file that only its owner may read.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)?.write_all(text.as_bytes())
}

fn with_hint(error: ServiceStartError) -> CliError {
    match error {
        ServiceStartError::Listen { .. } => CliError::Failed(format!(
            "{error}, or start with --listen 127.0.0.1:0, which finds free ports"
        )),
        error => error.into(),
    }
}

fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::Failed(format!(
        "{} cannot be written ({error}); give another folder with --data",
        path.display()
    ))
}

fn welcome(
    demo: &Demo,
    (link, low): &(SignInLink, Option<SignInLink>),
    (tenant, secret): &(TenantId, Secret),
    app: &App,
    telephone: &str,
    receiver: SocketAddr,
    options: &DevOptions,
) -> String {
    let low = low.as_ref().map_or_else(String::new, |low| {
        format!(
            "\n             {}\n             as {}, whose shop is low on credit",
            low.url, low.user.email
        )
    });
    let (public, operator) = (app.public_addr(), app.operator_addr());
    let key = &demo.key;
    let callers = match options.no_calls {
        true => "",
        false => "A simulated bridge places a call every few seconds. ",
    };
    format!(
        "Dikala runs with demo data, kept in {data}. Ctrl-C ends it.

  dashboard  {link}
             signs you in as {email}; works once, within 30 minutes{low}
  talk       http://{public}/dashboard/agents   then: the page of an agent calls it from your browser
  API        http://{public}/api/v1        browse it at http://{public}/docs
  operators  http://{operator}   what is wrong, and what the actors do
  receiver   http://{receiver}/hooks   the demo tenant's own server
             its other address, http://{receiver}/{till}, fails on purpose: the warnings about it are part of the demo
  tenant     {tenant}
  API key    {key}
  functions  {secret}   signs the requests to the tenant's functions{telephone}

Try it:

  curl -s http://{public}/api/v1/agents -H 'x-api-key: {key}'
  curl -s 'http://{public}/api/v1/calls?limit=3' -H 'x-api-key: {key}'
  curl -s http://{public}/api/v1/credits -H 'x-api-key: {key}'

{callers}Events as the receiver gets them:
",
        data = options.data.display(),
        till = receiver::BROKEN,
        secret = secret.expose(),
        link = link.url,
        email = link.user.email,
    )
}
