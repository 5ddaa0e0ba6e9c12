//! The keys of the voice providers: `telephony.voice`, and a section for each provider.

use std::str::FromStr;

use dikala_entities::VoiceProvider;
use dikala_telephony::settings::{
    EndpointSettings, GeminiSettings, OpenAiSettings, PROVIDERS, PipelineSettings, Prices,
    TextModelSettings, TurnDetection, Voice,
};
use serde::Deserialize;
use url::Url;

use super::super::price::Price;

/// The list of the providers that take over.
pub(in crate::config) const FALLBACK: &str = "telephony.voice.fallback";

#[derive(Clone, Debug, Deserialize)]
pub(super) struct VoiceKeys {
    provider: String,
    fallback: Vec<String>,
    barge_in: bool,
    #[serde(skip)]
    stands_in: bool,
}

#[derive(Clone, Deserialize)]
pub(super) struct GeminiKeys {
    url: String,
    #[serde(default)]
    api_key: Option<String>,
    model: String,
    idr_per_million: TokenPrices,
}

impl std::fmt::Debug for GeminiKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GeminiKeys(…)")
    }
}

#[derive(Clone, Deserialize)]
pub(super) struct OpenAiKeys {
    url: String,
    #[serde(default)]
    api_key: Option<String>,
    model: String,
    transcription_model: String,
    turn_detection: String,
    idr_per_million: RealtimePrices,
}

impl std::fmt::Debug for OpenAiKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenAiKeys(…)")
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PipelineKeys {
    #[serde(default)]
    stt: EndpointKeys,
    #[serde(default)]
    llm: EndpointKeys,
    #[serde(default)]
    tts: EndpointKeys,
    idr_per_million: PipelinePrices,
    pub(super) chats_per_hour: u64,
}

/// Empty values count as absent.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct EndpointKeys {
    url: String,
    api_key: String,
    model: String,
    /// Of the speech alone.
    voice: String,
}

impl std::fmt::Debug for EndpointKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EndpointKeys(…)")
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PipelinePrices {
    seconds: Price,
    text_in: Price,
    cached_in: Price,
    text_out: Price,
    characters: Price,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct TokenPrices {
    text_in: Price,
    audio_in: Price,
    text_out: Price,
    audio_out: Price,
}

/// The prices of OpenAI Realtime: tokens, cheaper ones in its cache, and seconds of audio that are transcribed.
#[derive(Clone, Copy, Debug, Deserialize)]
struct RealtimePrices {
    #[serde(flatten)]
    tokens: TokenPrices,
    cached_in: Price,
    seconds: Price,
}

impl From<TokenPrices> for Prices {
    fn from(prices: TokenPrices) -> Self {
        Self {
            text_in: prices.text_in.0,
            audio_in: prices.audio_in.0,
            text_out: prices.text_out.0,
            audio_out: prices.audio_out.0,
            ..Self::default()
        }
    }
}

impl VoiceKeys {
    /// Selects the scripted voice, because nobody chose a provider and the default one lacks its API key.
    pub(super) fn stand_in(&mut self) {
        VoiceProvider::Scripted
            .as_str()
            .clone_into(&mut self.provider);
        self.stands_in = true;
    }

    /// True if the scripted voice was selected as a stand-in.
    pub(super) fn has_stand_in(&self) -> bool {
        self.stands_in
    }

    /// The settings of all providers; checked before.
    pub(super) fn settings(
        &self,
        gemini: &GeminiKeys,
        openai: &OpenAiKeys,
        pipeline: &PipelineKeys,
    ) -> Voice {
        Voice {
            provider: known(&self.provider).unwrap_or(VoiceProvider::Scripted),
            fallback: self
                .fallback
                .iter()
                .filter_map(|name| known(name))
                .collect(),
            gemini: Some(gemini.settings()).filter(|gemini| !gemini.lacks_key()),
            openai: Some(openai.settings()).filter(|openai| !openai.lacks_key()),
            pipeline: pipeline.settings(),
            barge_in: self.barge_in,
        }
    }
}

impl GeminiKeys {
    fn settings(&self) -> GeminiSettings {
        GeminiSettings {
            url: self.url.clone(),
            api_key: self.api_key.clone().unwrap_or_default(),
            model: self.model.clone(),
            prices: self.idr_per_million.into(),
        }
    }
}

impl OpenAiKeys {
    fn settings(&self) -> OpenAiSettings {
        let RealtimePrices {
            tokens,
            cached_in,
            seconds,
        } = self.idr_per_million;
        OpenAiSettings {
            url: self.url.clone(),
            api_key: self.api_key.clone().unwrap_or_default(),
            model: self.model.clone(),
            transcription_model: self.transcription_model.clone(),
            turn_detection: turn_detection(&self.turn_detection).unwrap_or_default(),
            prices: Prices {
                cached_in: cached_in.0,
                seconds: seconds.0,
                ..tokens.into()
            },
        }
    }
}

impl EndpointKeys {
    /// `None` if it has no address, or lacks a key.
    fn settings(&self) -> Option<EndpointSettings> {
        let settings = EndpointSettings {
            url: self.url.clone(),
            api_key: self.api_key.clone(),
            model: self.model.clone(),
        };
        (!settings.url.is_empty() && !settings.lacks_key()).then_some(settings)
    }
}

impl PipelineKeys {
    /// `None` unless all three endpoints are configured.
    fn settings(&self) -> Option<PipelineSettings> {
        Some(PipelineSettings {
            stt: self.stt.settings()?,
            llm: self.llm.settings()?,
            tts: self.tts.settings()?,
            voice: self.tts.voice.clone(),
            prices: self.prices(),
        })
    }

    /// The language model alone; `None` unless it is configured.
    pub(super) fn text_model(&self) -> Option<TextModelSettings> {
        Some(TextModelSettings {
            llm: self.llm.settings()?,
            prices: self.prices(),
        })
    }

    fn prices(&self) -> Prices {
        let prices = self.idr_per_million;
        Prices {
            seconds: prices.seconds.0,
            text_in: prices.text_in.0,
            cached_in: prices.cached_in.0,
            text_out: prices.text_out.0,
            characters: prices.characters.0,
            ..Prices::default()
        }
    }
}

fn turn_detection(text: &str) -> Option<TurnDetection> {
    match text {
        "server" => Some(TurnDetection::Server),
        "semantic" => Some(TurnDetection::Semantic),
        "own" => Some(TurnDetection::Own),
        _ => None,
    }
}

/// A provider of this program by its name.
fn known(name: &str) -> Option<VoiceProvider> {
    let provider = VoiceProvider::from_str(name).ok()?;
    PROVIDERS.contains(&provider).then_some(provider)
}

/// The fault of a text below `telephony.voice` or a provider, if it has one: "it must be …".
pub(super) fn of_text(key: &str, text: &str) -> Option<String> {
    let names = || {
        PROVIDERS
            .iter()
            .map(|it| it.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    match key {
        "telephony.voice.provider" => known(text)
            .is_none()
            .then(|| format!("it must be one of {}", names())),
        FALLBACK => known(text)
            .is_none()
            .then(|| format!("each entry must be one of {}", names())),
        "telephony.openai.turn_detection" => turn_detection(text)
            .is_none()
            .then(|| "it must be server, semantic or own".to_owned()),
        "telephony.gemini.url" | "telephony.openai.url" => (!is_websocket(text))
            .then(|| "it must be an address that begins with wss:// or ws://".to_owned()),
        "telephony.pipeline.stt.url"
        | "telephony.pipeline.llm.url"
        | "telephony.pipeline.tts.url" => (!text.is_empty() && !is_http(text))
            .then(|| "it must be an address that begins with https:// or http://".to_owned()),
        "telephony.gemini.api_key"
        | "telephony.openai.api_key"
        | "telephony.pipeline.stt.api_key"
        | "telephony.pipeline.llm.api_key"
        | "telephony.pipeline.tts.api_key" => (!text.bytes().all(|b| b.is_ascii_graphic()))
            .then(|| "it must be made of visible ASCII characters".to_owned()),
        _ => None,
    }
}

fn is_websocket(text: &str) -> bool {
    has_scheme(text, ["ws", "wss"])
}

fn is_http(text: &str) -> bool {
    has_scheme(text, ["http", "https"])
}

fn has_scheme(text: &str, schemes: [&str; 2]) -> bool {
    let url = Url::parse(text).ok();
    url.is_some_and(|url| schemes.contains(&url.scheme()) && url.has_host())
}
