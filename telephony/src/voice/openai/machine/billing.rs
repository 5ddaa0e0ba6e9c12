//! The tokens that a response bills.

use crate::voice::{Usage, openai::wire::server::ResponseUsage};

/// The usage of a response. Cached tokens are a part of the input; input and output without a kind count as text.
pub(super) fn by_kind(usage: &ResponseUsage) -> Usage {
    let details = &usage.input_token_details;
    let (audio_in, cached_in) = (details.audio_tokens, details.cached_tokens);
    let cached_audio = details.cached_tokens_details.audio_tokens.min(audio_in);
    let cached_text = cached_in.saturating_sub(cached_audio);
    let audio_out = usage.output_token_details.audio_tokens;
    let text_in = usage.input_tokens.saturating_sub(audio_in);
    Usage {
        text_in: text_in.saturating_sub(cached_text),
        audio_in: audio_in - cached_audio,
        text_out: usage.output_tokens.saturating_sub(audio_out),
        audio_out,
        cached_in,
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::by_kind;
    use crate::voice::Usage;

    #[rstest]
    #[case(json!({"input_tokens": 132, "output_tokens": 121,
        "input_token_details": {"text_tokens": 119, "audio_tokens": 13, "image_tokens": 0, "cached_tokens": 64,
            "cached_tokens_details": {"text_tokens": 59, "audio_tokens": 5}},
        "output_token_details": {"text_tokens": 30, "audio_tokens": 91}}), (60, 8, 64, 30, 91))]
    #[case(json!({"input_tokens": 10, "output_tokens": 5}), (10, 0, 0, 5, 0))]
    #[case(json!({"input_tokens": 10, "input_token_details": {"cached_tokens": 4}}), (6, 0, 4, 0, 0))]
    #[case(json!({"input_tokens": null, "input_token_details": {"audio_tokens": 7}}), (0, 7, 0, 0, 0))]
    #[case(json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX}), (u64::MAX, 0, 0, u64::MAX, 0))]
    #[case(json!({}), (0, 0, 0, 0, 0))]
    fn usage_is_counted_by_kind(
        #[case] told: Value,
        #[case] (text_in, audio_in, cached_in, text_out, audio_out): (u64, u64, u64, u64, u64),
    ) {
        let expected = Usage {
            text_in,
            audio_in,
            text_out,
            audio_out,
            cached_in,
            ..Usage::default()
        };
        assert_eq!(by_kind(&serde_json::from_value(told).unwrap()), expected);
    }
}
