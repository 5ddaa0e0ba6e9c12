//! Differences between the models of Gemini Live. They change with the models, so every rule has its date and source.

/// The rules of one family of models.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Profile {
    /// A part of the model's name.
    family: &'static str,
    /// The channel for text that the model is to answer: the greeting, pressed keys, "say goodbye".
    pub words: Words,
    pub functions: FunctionMode,
    pub history: History,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// `realtimeInput.text`
    Realtime,
    /// `clientContent` with `turnComplete`
    Turn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FunctionMode {
    /// Declared `NON_BLOCKING`: the conversation continues while they run.
    NonBlocking,
    /// The model waits, and gets no realtime input until it has the answer.
    Blocking,
}

/// The way in which a fresh session learns the conversation so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    /// As turns of a `clientContent`.
    Turns,
    /// As part of the instruction.
    Instruction,
}

/// The newest first: it is the default for unknown models.
static PROFILES: &[Profile] = &[
    Profile {
        // `gemini-3.8-live` and `gemini-3.8-live-extended-thinking`, stable since September 2026.
        family: "3.8-live",
        // clientContent with turnComplete always cuts off the current speech (ai.google.dev, models/gemini-3.8-live, "Migrating
        // from Gemini 3.1 Flash Live", September 2026), so notes are sent as realtime text.
        words: Words::Realtime,
        // Same page: NON_BLOCKING is the default, and scheduling is supported. A BLOCKING call is cancelled by new input, and a
        // telephone's audio never ends (cloud.google.com, "Migrate from Gemini 2.5 … to Gemini 3.8 Live", October 2026).
        functions: FunctionMode::NonBlocking,
        // Same page: clientContent with roles is accepted during the whole session.
        history: History::Turns,
    },
    Profile {
        // A preview of March 2026, "legacy" since September.
        family: "3.1-flash-live",
        // Closed with 1007 on clientContent (livekit/agents#5262, 2026-03-28); later pages say that it is accepted. Realtime text
        // works in either case.
        words: Words::Realtime,
        // "Function calling is synchronous only" (ai.google.dev, models/gemini-3.1-flash-live-preview, read in November 2026). Realtime
        // input while a call is open closes the connection with 1008 (autonomous-os#231 and #237, August 2026; litellm#26590).
        functions: FunctionMode::Blocking,
        // As for `words`; `historyConfig` is said to be refused, too.
        history: History::Instruction,
    },
    Profile {
        // `gemini-2.5-flash-native-audio-latest` and its dated previews.
        family: "2.5-flash",
        // Google's samples and Pipecat greet by a turn; realtime text is the way of 3.x (jambonz-feature-server#1543, April 2026).
        words: Words::Turn,
        // ai.google.dev, live-api/tools, read in November 2026: "sync and async". Blocking if `behavior` is left out.
        functions: FunctionMode::NonBlocking,
        history: History::Turns,
    },
];

impl Profile {
    /// The rules for a model name, with or without `models/`.
    pub(super) fn of(model: &str) -> &'static Self {
        PROFILES
            .iter()
            .find(|profile| model.contains(profile.family))
            .unwrap_or(&PROFILES[0])
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::Profile;

    #[rstest]
    #[case("gemini-3.8-live", "3.8-live")]
    #[case("models/gemini-3.8-live-extended-thinking", "3.8-live")]
    #[case("gemini-3.1-flash-live-preview", "3.1-flash-live")]
    #[case("gemini-2.5-flash-native-audio-preview-12-2025", "2.5-flash")]
    #[case("gemini-9-live", "3.8-live")]
    fn models_have_the_rules_of_their_family(#[case] model: &str, #[case] family: &str) {
        assert_eq!(Profile::of(model).family, family);
    }
}
