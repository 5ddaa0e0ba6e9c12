//! Settings of the bridge: the `telephony.*` keys, typed and checked by the program that starts it.

use std::path::PathBuf;

use dikala_entities::VoiceProvider;
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

/// The providers that this program has.
pub const PROVIDERS: &[VoiceProvider] = &[
    VoiceProvider::Gemini,
    VoiceProvider::Openai,
    VoiceProvider::Pipeline,
    VoiceProvider::Scripted,
];

/// The voice providers of the bridge. The scripted one is always there.
#[derive(Debug, Clone)]
pub struct Voice {
    /// For agents that choose none, and for those whose choice is not configured.
    pub provider: VoiceProvider,
    /// The providers that take over when one fails, in this order.
    pub fallback: Vec<VoiceProvider>,
    pub gemini: Option<GeminiSettings>,
    pub openai: Option<OpenAiSettings>,
    pub pipeline: Option<PipelineSettings>,
    /// Callers may interrupt the agent, unless the agent's own settings say otherwise.
    pub barge_in: bool,
}

impl Default for Voice {
    /// The scripted provider alone.
    fn default() -> Self {
        Self {
            provider: VoiceProvider::Scripted,
            fallback: Vec::new(),
            gemini: None,
            openai: None,
            pipeline: None,
            barge_in: true,
        }
    }
}

impl Voice {
    /// True if agents can have this provider.
    pub fn is_configured(&self, provider: VoiceProvider) -> bool {
        match provider {
            VoiceProvider::Gemini => self.gemini.is_some(),
            VoiceProvider::Openai => self.openai.is_some(),
            VoiceProvider::Pipeline => self.pipeline.is_some(),
            VoiceProvider::Scripted => true,
        }
    }

    /// Gemini alone.
    pub fn gemini(settings: GeminiSettings) -> Self {
        Self {
            provider: VoiceProvider::Gemini,
            gemini: Some(settings),
            ..Self::default()
        }
    }

    /// The prices of a provider, if there are any.
    pub fn prices(&self, provider: VoiceProvider) -> Option<Prices> {
        let prices = match provider {
            VoiceProvider::Gemini => self.gemini.as_ref()?.prices,
            VoiceProvider::Openai => self.openai.as_ref()?.prices,
            VoiceProvider::Pipeline => self.pipeline.as_ref()?.prices,
            VoiceProvider::Scripted => return None,
        };
        (!prices.are_none()).then_some(prices)
    }
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
    let host = host_of(url);
    host == "googleapis.com" || host.ends_with(".googleapis.com")
}

/// The host of an address, or nothing.
pub(crate) fn host_of(url: &str) -> String {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(Url::host_str);
    host.unwrap_or_default().to_owned()
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

/// OpenAI Realtime, or a server that speaks it.
#[derive(Clone)]
pub struct OpenAiSettings {
    /// `ws://` or `wss://`, without the model.
    pub url: String,
    /// Empty if the server needs none.
    pub api_key: String,
    /// Empty if the server has only one.
    pub model: String,
    /// The model that writes down the caller's words.
    pub transcription_model: String,
    pub turn_detection: TurnDetection,
    pub prices: Prices,
}

/// The side that decides when the caller has finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TurnDetection {
    /// The server, by silence.
    #[default]
    Server,
    /// The server, by what was said.
    Semantic,
    /// The bridge, by its own voice activity detection.
    Own,
}

impl OpenAiSettings {
    /// The URL needs a key, and none is set.
    pub fn lacks_key(&self) -> bool {
        self.api_key.is_empty() && wants_openai_key(&self.url)
    }
}

/// OpenAI's own service needs a key; others may need none.
pub fn wants_openai_key(url: &str) -> bool {
    host_of(url) == "api.openai.com"
}

impl std::fmt::Debug for OpenAiSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenAiSettings")
            .field("url", &self.url)
            .field("model", &self.model)
            .field("turn_detection", &self.turn_detection)
            .field("prices", &self.prices)
            .finish_non_exhaustive()
    }
}

/// Speech-to-text, a language model and text-to-speech behind OpenAI-compatible endpoints.
#[derive(Debug, Clone)]
pub struct PipelineSettings {
    pub stt: EndpointSettings,
    pub llm: EndpointSettings,
    pub tts: EndpointSettings,
    /// The voice of agents that name none; empty for the server's usual one.
    pub voice: String,
    pub prices: Prices,
}

/// The language model of a pipeline alone, for conversations in writing.
#[derive(Debug, Clone)]
pub struct TextModelSettings {
    pub llm: EndpointSettings,
    pub prices: Prices,
}

/// One endpoint of a pipeline.
#[derive(Clone)]
pub struct EndpointSettings {
    /// `http://` or `https://`: the server, or with `/v1`, or the whole address.
    pub url: String,
    /// Empty if the server needs none.
    pub api_key: String,
    /// Empty if the server has only one.
    pub model: String,
}

impl EndpointSettings {
    /// The URL needs a key, and none is set.
    pub fn lacks_key(&self) -> bool {
        self.api_key.is_empty() && wants_openai_key(&self.url)
    }
}

impl std::fmt::Debug for EndpointSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointSettings")
            .field("url", &self.url)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Thousandths of a rupiah per million units. A provider bills some of the units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prices {
    /// Tokens, by modality and direction.
    pub text_in: u64,
    pub audio_in: u64,
    pub text_out: u64,
    pub audio_out: u64,
    /// Input tokens that the provider had in its cache.
    pub cached_in: u64,
    /// Seconds of audio.
    pub seconds: u64,
    /// Characters of text that was spoken.
    pub characters: u64,
}

impl Prices {
    /// No prices are configured.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }
}
