//! The tokens that the model bills, by modality.

use crate::voice::{
    Usage,
    gemini::wire::server::{ModalityTokens, UsageMetadata},
};

/// The usage in one message. Tokens without a modality, those of tool use in the prompt, and thoughts count as text.
pub(super) fn by_modality(usage: &UsageMetadata) -> Usage {
    let of_audio = |details: &[ModalityTokens]| -> u64 {
        let audio = details.iter().filter(|it| it.modality == "AUDIO");
        audio.map(|it| it.token_count).fold(0, u64::saturating_add)
    };
    let named = |details: &[ModalityTokens]| -> u64 {
        let counts = details.iter().map(|it| it.token_count);
        counts.fold(0, u64::saturating_add)
    };
    let text = |total: u64, details: &[ModalityTokens], more: u64| {
        total
            .max(named(details))
            .saturating_sub(of_audio(details))
            .saturating_add(more)
    };
    let (prompt, response) = (&usage.prompt_tokens_details, &usage.response_tokens_details);
    Usage {
        text_in: text(
            usage.prompt_token_count,
            prompt,
            usage.tool_use_prompt_token_count,
        ),
        audio_in: of_audio(prompt),
        text_out: text(
            usage.response_token_count,
            response,
            usage.thoughts_token_count,
        ),
        audio_out: of_audio(response),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::by_modality;
    use crate::voice::Usage;

    #[rstest]
    // As observed with 3.8 (discuss.ai.google.dev 188765, autumn 2026): 25 tokens of the prompt have no modality, thoughts are
    // listed apart.
    #[case(json!({"promptTokenCount": 522, "responseTokenCount": 42, "totalTokenCount": 564, "thoughtsTokenCount": 136,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 332}, {"modality": "AUDIO", "tokenCount": 165}],
        "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 42}]}), (357, 165, 136, 42))]
    #[case(json!({"promptTokenCount": 10, "responseTokenCount": 5, "toolUsePromptTokenCount": 3}), (13, 0, 5, 0))]
    #[case(json!({"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 7}]}), (0, 7, 0, 0))]
    #[case(json!({}), (0, 0, 0, 0))]
    #[case(json!({"promptTokenCount": u64::MAX, "toolUsePromptTokenCount": u64::MAX}), (u64::MAX, 0, 0, 0))]
    fn usage_is_counted_by_modality(
        #[case] told: Value,
        #[case] (text_in, audio_in, text_out, audio_out): (u64, u64, u64, u64),
    ) {
        let expected = Usage {
            text_in,
            audio_in,
            text_out,
            audio_out,
            ..Usage::default()
        };
        assert_eq!(
            by_modality(&serde_json::from_value(told).unwrap()),
            expected
        );
    }
}
