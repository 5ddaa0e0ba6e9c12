//! Settings of the bridge: the `telephony.*` keys, typed and checked by the program that starts it.

use std::path::PathBuf;

use dikala_sip::settings::SipSettings;
use url::Url;

/// All settings, except the address of the service.
#[derive(Debug, Clone)]
pub struct BridgeSettings {
    pub sip: SipSettings,
    pub voice: Voice,
    /// CA certificates trusted besides the public ones, in outgoing TLS.
    pub extra_ca_file: Option<PathBuf>,
    /// The time that running calls get once the bridge is told to stop.
    pub shutdown_seconds: u64,
    /// Absence of the service after which a call is ended.
    pub engine_lost_after_seconds: u64,
}

#[derive(Debug, Clone)]
pub struct Voice {
    pub model: VoiceModel,
    /// Callers may interrupt the agent.
    pub barge_in: bool,
}

#[derive(Debug, Clone)]
pub enum VoiceModel {
    Scripted,
    Gemini(GeminiSettings),
}

#[derive(Clone)]
pub struct GeminiSettings {
    /// `ws://` or `wss://`, without the key.
    pub url: String,
    pub api_key: String,
    pub model: String,
    pub prices: Prices,
}

impl GeminiSettings {
    /// The URL needs a key, and none is set.
    pub fn lacks_key(&self) -> bool {
        self.api_key.is_empty() && wants_key(&self.url)
    }
}

/// Google's own service needs a key; others need none.
pub fn wants_key(url: &str) -> bool {
    let host = Url::parse(url).ok();
    let host = host.as_ref().and_then(Url::host_str).unwrap_or_default();
    host == "googleapis.com" || host.ends_with(".googleapis.com")
}

impl std::fmt::Debug for GeminiSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GeminiSettings")
            .field("url", &self.url)
            .field("model", &self.model)
            .field("prices", &self.prices)
            .finish_non_exhaustive()
    }
}

/// Thousandths of a rupiah per million tokens, by modality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prices {
    pub text_in: u64,
    pub audio_in: u64,
    pub text_out: u64,
    pub audio_out: u64,
}

impl Prices {
    /// No prices are configured.
    pub fn are_none(&self) -> bool {
        [self.text_in, self.audio_in, self.text_out, self.audio_out] == [0; 4]
    }
}
