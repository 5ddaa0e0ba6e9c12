//! The units that a response and a transcription bill.

use serde_json::Number;

use crate::voice::{
    Usage,
    openai::wire::server::{ResponseUsage, TranscriptionUsage},
};

/// A token of the caller's audio is 100 ms (OpenAI's guide to the costs of Realtime).
const MS_PER_TOKEN: u64 = 100;

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

/// The usage of a transcription: the time of the audio alone. Its tokens have other prices than those of responses, and OpenAI
/// names a price per minute for each transcription model.
pub(super) fn of_transcription(usage: &TranscriptionUsage) -> Usage {
    let tokens = usage.input_token_details.audio_tokens;
    Usage {
        milliseconds: match &usage.seconds {
            Some(seconds) => milliseconds(seconds),
            None => tokens.saturating_mul(MS_PER_TOKEN),
        },
        ..Usage::default()
    }
}

/// Decimal seconds in milliseconds; 0 for what is no time.
fn milliseconds(seconds: &Number) -> u64 {
    let text = seconds.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let thousandths: String = part.chars().chain("000".chars()).take(3).collect();
    match (whole.parse::<u64>(), thousandths.parse::<u64>()) {
        (Ok(whole), Ok(thousandths)) => whole.saturating_mul(1_000).saturating_add(thousandths),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::{by_kind, of_transcription};
    use crate::voice::Usage;

    #[rstest]
    #[case(json!({"type": "duration", "seconds": 1.5}), 1_500)]
    #[case(json!({"type": "duration", "seconds": 7}), 7_000)]
    #[case(json!({"type": "duration", "seconds": 0.0625}), 62)]
    #[case(json!({"type": "duration", "seconds": -2.5}), 0)]
    #[case(json!({"type": "duration", "seconds": 1e300}), 0)]
    #[case(json!({"type": "tokens", "total_tokens": 22, "input_tokens": 13, "output_tokens": 9,
        "input_token_details": {"text_tokens": 0, "audio_tokens": 13}}), 1_300)]
    #[case(json!({"type": "tokens", "input_tokens": 13, "input_token_details": null}), 0)]
    #[case(json!({"input_token_details": {"audio_tokens": u64::MAX}}), u64::MAX)]
    fn a_transcription_bills_time(#[case] told: Value, #[case] milliseconds: u64) {
        let expected = Usage {
            milliseconds,
            ..Usage::default()
        };
        let told = serde_json::from_value(told).unwrap();
        assert_eq!(of_transcription(&told), expected);
    }

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
