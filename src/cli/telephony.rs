//! `dikala telephony`: runs the telephony bridge alone, for a service on any machine.

use std::sync::Arc;

use clap::Args;
use dikala_actors::runtime::clock::SystemClock;
use dikala_entities::{Secret, VoiceProvider};
use dikala_protocol::client::Address;
use dikala_telephony::settings::BridgeSettings;

use super::{CliError, output};
use crate::{
    app::wait_for_signal,
    config::{ConfigError, Layers, Settings},
    front::raise_open_files,
    simulator::BridgeUrl,
    telemetry,
    telephony::{BuiltInBridge, warn_of_stand_in, warn_of_trunks},
};

/// Options of `dikala telephony`; the rest are the keys `telephony.*` of the configuration.
#[derive(Debug, Args)]
pub struct TelephonyOptions {
    /// The public address of the service: http(s)://HOST:PORT or ws(s)://HOST:PORT.
    #[arg(long, value_name = "URL")]
    engine: BridgeUrl,
    /// The bridge's token, of `dikala bridge create`.
    #[arg(long, env = "DIKALA_BRIDGE_TOKEN", hide_env_values = true, value_parser = |text: &str| Ok::<_, String>(Secret::new(text)), value_name = "dkb_…")]
    token: Secret,
}

/// Runs until SIGTERM or Ctrl-C.
pub(super) async fn run(options: TelephonyOptions, layers: &Layers) -> Result<(), CliError> {
    let settings = Settings::new(layers)?;
    let bridge = settings.bridge_keys();
    has_a_voice(&bridge)?;
    telemetry::init(&settings.log);
    if settings.has_stand_in() {
        warn_of_stand_in();
    }
    warn_of_trunks(&settings.whatsapp());
    raise_open_files();
    let service = Address {
        url: options.engine.to_string(),
        token: options.token,
    };
    let telephony = BuiltInBridge::start(bridge, service, Arc::new(SystemClock)).await;
    let telephony = telephony.map_err(|error| CliError::Failed(error.to_string()))?;
    // Installed before the addresses are printed: a reader of them may send the signal at once.
    let stop = wait_for_signal();
    output::text(&line(&telephony))?;
    stop.await;
    telephony.stop().await;
    Ok(())
}

/// The listening addresses in one line.
pub(super) fn line(telephony: &BuiltInBridge) -> String {
    format!("sip {}", telephony.addresses().join(" "))
}

fn has_a_voice(settings: &BridgeSettings) -> Result<(), ConfigError> {
    let voice = &settings.voice;
    let mut named = voice.fallback.iter().chain([&voice.provider]);
    if let Some(provider) = named.find(|provider| !voice.is_configured(**provider)) {
        let (absent, how) = match provider {
            VoiceProvider::Openai => ("api_key", "it (OPENAI_API_KEY)"),
            VoiceProvider::Pipeline => ("stt, llm or tts", "their url and api_key"),
            _ => ("api_key", "it (GEMINI_API_KEY)"),
        };
        return Err(ConfigError(format!(
            "telephony.voice names {provider}, and telephony.{provider}.{absent} is not set; set {how}, or \
             telephony.voice.provider to scripted, which needs none"
        )));
    }
    Ok(())
}
