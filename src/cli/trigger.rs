//! `dikala trigger`: creates a sample event for followers of the event stream.

use clap::{Args, builder::PossibleValuesParser};
use dikala_entities::EventKind;
use serde::Deserialize;
use serde_json::json;

use super::{
    CliError,
    client::{Service, ServiceArgs},
    output,
};

/// Options of `dikala trigger`.
#[derive(Debug, Args)]
pub struct TriggerOptions {
    /// The kind of the event.
    #[arg(value_parser = PossibleValuesParser::new(EventKind::WORDS))]
    event: String,
    #[command(flatten)]
    service: ServiceArgs,
}

pub async fn run(options: TriggerOptions, as_json: bool) -> Result<(), CliError> {
    #[derive(Deserialize)]
    struct Sample {
        id: String,
    }
    let service = Service::new(options.service)?;
    let answer = service
        .post("/events/sample", &json!({"event": options.event}))
        .await?;
    if as_json {
        return output::text(&String::from_utf8_lossy(&answer));
    }
    let sample: Sample = serde_json::from_slice(&answer)
        .map_err(|_| CliError::Failed(format!("{service} answers something else than a sample")))?;
    output::text(&format!(
        "made {}, a sample of {}; `dikala listen` shows it",
        sample.id, options.event
    ))
}
