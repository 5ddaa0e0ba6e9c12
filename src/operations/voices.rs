//! The voices that agents can have.

use dikala_entities::VoiceProvider;
use dikala_telephony::settings::PROVIDERS;
use serde::Serialize;
use utoipa::ToSchema;

use super::OperationContext;
use crate::http::error::ApiError;

/// A provider of voices.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = VoiceProviderVoices)]
pub struct ProviderVoices {
    provider: VoiceProvider,
    /// The installation has configured it, so agents can name it.
    available: bool,
    /// Agents that name no provider have it.
    default: bool,
    /// Its voices that are known here. It may have others, which `voiceName` takes too.
    names: &'static [&'static str],
}

/// All providers that are built in.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"voices": [
    {"provider": "gemini", "available": true, "default": true, "names": ["Zephyr", "Puck", "Kore"]},
    {"provider": "openai", "available": false, "default": false, "names": ["marin", "cedar"]},
    {"provider": "pipeline", "available": false, "default": false, "names": []},
    {"provider": "scripted", "available": true, "default": false, "names": []}
]}))]
pub struct VoiceList {
    voices: Vec<ProviderVoices>,
}

/// The voices of all providers.
pub async fn list(context: OperationContext) -> Result<VoiceList, ApiError> {
    let configured = &context.agent_limits()?.voices;
    let voices = PROVIDERS.iter().map(|provider| ProviderVoices {
        provider: *provider,
        available: configured.available.contains(provider),
        default: configured.default == *provider,
        names: names(*provider),
    });
    Ok(VoiceList {
        voices: voices.collect(),
    })
}

/// The provider's own names of its voices, as it documents them. A pipeline's depend on its server.
pub const fn names(provider: VoiceProvider) -> &'static [&'static str] {
    match provider {
        VoiceProvider::Gemini => &[
            "Zephyr",
            "Puck",
            "Charon",
            "Kore",
            "Fenrir",
            "Leda",
            "Orus",
            "Aoede",
            "Callirrhoe",
            "Autonoe",
            "Enceladus",
            "Iapetus",
            "Umbriel",
            "Algieba",
            "Despina",
            "Erinome",
            "Algenib",
            "Rasalgethi",
            "Laomedeia",
            "Achernar",
            "Alnilam",
            "Schedar",
            "Gacrux",
            "Pulcherrima",
            "Achird",
            "Zubenelgenubi",
            "Vindemiatrix",
            "Sadachbia",
            "Sadaltager",
            "Sulafat",
        ],
        VoiceProvider::Openai => &[
            "alloy", "ash", "ballad", "coral", "echo", "sage", "shimmer", "verse", "marin", "cedar",
        ],
        VoiceProvider::Pipeline | VoiceProvider::Scripted => &[],
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::VoiceId;

    use super::*;

    #[test]
    fn every_voice_id_is_a_voice_of_gemini() {
        for voice in VoiceId::WORDS {
            assert!(names(VoiceProvider::Gemini).contains(voice), "{voice}");
        }
    }
}
