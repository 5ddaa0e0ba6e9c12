//! Judges transcriptions: words or nothing, and whether a sentence has ended.

/// Texts that transcription models of the whisper family write for silence and noise, without their punctuation.
const INVENTED: &[&str] = &[
    "jangan lupa like dan subscribe",
    "please subscribe",
    "sampai jumpa di video selanjutnya",
    "subtitles by the amara org community",
    "terima kasih sudah menonton",
    "terima kasih telah menonton",
    "thank you for watching",
    "thanks for watching",
    "you",
];
/// The longest text of one piece of the caller's speech, in bytes.
const TEXT_MOST: usize = 8_000;

/// The caller's words in a transcription; `None` if there are none. Notes such as `[MUSIC]` are no words.
pub(super) fn words(text: &str) -> Option<String> {
    let mut depth = 0_usize;
    let mut spoken = String::new();
    for sign in text[..text.floor_char_boundary(TEXT_MOST)].chars() {
        match sign {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            '♪' | '*' => {}
            _ if depth > 0 => {}
            _ if sign.is_whitespace() || sign.is_control() => spoken.push(' '),
            _ => spoken.push(sign),
        }
    }
    let spoken = spoken.trim();
    let letters = |sign: char| sign.is_alphanumeric();
    let words = spoken.split(|sign| !letters(sign));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let plain = words.join(" ").to_lowercase();
    let says_something = !plain.is_empty() && !INVENTED.contains(&plain.as_str());
    says_something.then(|| spoken.to_owned())
}

/// The sentence is complete, as its punctuation says.
pub(super) fn is_complete(words: &str) -> bool {
    let words = words.trim_end_matches(['"', '\'', '”', '’']);
    !words.ends_with("...") && words.ends_with(['.', '!', '?', '。', '！', '？'])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(" Where is my order? ", Some("Where is my order?"))]
    #[case("Terima kasih.", Some("Terima kasih."))]
    #[case("Thank you for watching!", None)]
    #[case("Terima kasih telah menonton.", None)]
    #[case("You", None)]
    #[case("You, please", Some("You, please"))]
    #[case("[BLANK_AUDIO]", None)]
    #[case("(musik) ♪ ", None)]
    #[case("... ! ,", None)]
    #[case("[noise] halo", Some("halo"))]
    #[case(")]] halo", Some("halo"))]
    #[case("", None)]
    fn what_was_said(#[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(words(text).as_deref(), expected);
    }

    #[test]
    fn a_text_is_bounded() {
        let long = words(&"ä".repeat(100_000)).map(|it| it.len());
        assert_eq!(long, Some(TEXT_MOST));
    }

    #[rstest]
    #[case("Where is my order?", true)]
    #[case("Dia bilang \"ya.\"", true)]
    #[case("Saya mau", false)]
    #[case("Saya mau,", false)]
    #[case("Saya mau...", false)]
    #[case("", false)]
    fn a_sentence_has_an_end(#[case] words: &str, #[case] expected: bool) {
        assert_eq!(is_complete(words), expected);
    }
}
