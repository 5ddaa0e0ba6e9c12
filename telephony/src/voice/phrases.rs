//! Recorded sentences in Indonesian and English, for callers without a model.
//!
//! They were spoken by espeak-ng when `telephony/voices/make.py` was run, and are kept as IMA ADPCM at 8 kHz, 250 kB in all.

use audio_codec_algorithms::{AdpcmImaState, decode_adpcm_ima};

/// Samples at [`dikala_sip::leg::SPEECH_RATE`] per recorded sample.
const FACTOR: i32 = 3;

/// A recorded sentence, or a digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phrase {
    /// The model is late.
    Wait,
    /// The call has to be ended.
    Sorry,
    Greeting,
    Question,
    /// The caller was heard.
    Heard,
    /// A function is called.
    Looking,
    /// The outcome of a function follows.
    Result,
    /// A function succeeded without digits to read out.
    Done,
    /// A function failed.
    Failed,
    Goodbye,
    /// 0 to 9.
    Digit(u8),
}

/// Text and sound of a phrase.
type Recording = (&'static str, &'static [u8]);

macro_rules! recordings {
    ($language:literal: $($phrase:pat => $name:literal $text:literal,)*) => {
        |phrase| -> Recording {
            match phrase {
                $($phrase => ($text, include_bytes!(concat!("../../voices/", $language, "/", $name, ".ima"))),)*
            }
        }
    };
}

impl Phrase {
    /// The text and its samples at [`dikala_sip::leg::SPEECH_RATE`]. Any language but Indonesian gets English.
    pub fn spoken(self, language: &str) -> (&'static str, Vec<i16>) {
        let (text, packed) = self.recording(language);
        (text, samples(packed))
    }

    fn recording(self, language: &str) -> Recording {
        let recordings: fn(Self) -> Recording = if is_indonesian(language) {
            recordings! { "id":
                Self::Wait => "wait" "Mohon tunggu sebentar.",
                Self::Sorry => "sorry" "Maaf, panggilan ini harus kami akhiri. Silakan telepon lagi nanti.",
                Self::Greeting => "greeting" "Halo! Ini suara uji Dikala, tanpa kecerdasan buatan.",
                Self::Question => "question" "Silakan bicara, atau tekan angka, lalu tanda pagar.",
                Self::Heard => "heard" "Terima kasih, suara Anda terdengar.",
                Self::Looking => "looking" "Baik, saya periksa dulu.",
                Self::Result => "result" "Jawabannya:",
                Self::Done => "done" "Sudah selesai.",
                Self::Failed => "failed" "Maaf, itu tidak berhasil.",
                Self::Goodbye => "goodbye" "Terima kasih sudah menelepon. Sampai jumpa!",
                Self::Digit(0) => "0" "nol",
                Self::Digit(1) => "1" "satu",
                Self::Digit(2) => "2" "dua",
                Self::Digit(3) => "3" "tiga",
                Self::Digit(4) => "4" "empat",
                Self::Digit(5) => "5" "lima",
                Self::Digit(6) => "6" "enam",
                Self::Digit(7) => "7" "tujuh",
                Self::Digit(8) => "8" "delapan",
                Self::Digit(_) => "9" "sembilan",
            }
        } else {
            recordings! { "en":
                Self::Wait => "wait" "One moment, please.",
                Self::Sorry => "sorry" "Sorry, we have to end this call. Please call again later.",
                Self::Greeting => "greeting" "Hello! This is the test voice of Dikala, without any artificial intelligence.",
                Self::Question => "question" "Please say something, or press some digits, and then the hash key.",
                Self::Heard => "heard" "Thank you, I can hear you.",
                Self::Looking => "looking" "All right, let me look that up.",
                Self::Result => "result" "The answer is:",
                Self::Done => "done" "It is done.",
                Self::Failed => "failed" "Sorry, that did not work.",
                Self::Goodbye => "goodbye" "Thank you for calling. Goodbye!",
                Self::Digit(0) => "0" "zero",
                Self::Digit(1) => "1" "one",
                Self::Digit(2) => "2" "two",
                Self::Digit(3) => "3" "three",
                Self::Digit(4) => "4" "four",
                Self::Digit(5) => "5" "five",
                Self::Digit(6) => "6" "six",
                Self::Digit(7) => "7" "seven",
                Self::Digit(8) => "8" "eight",
                Self::Digit(_) => "9" "nine",
            }
        };
        recordings(self)
    }
}

/// True for Indonesian; all other languages get English.
pub fn is_indonesian(language: &str) -> bool {
    language.split(['-', '_']).next() == Some("id")
}

/// Decodes four bits per sample, the high half of a byte first, and interpolates linearly. Its artefacts above 4 kHz are faint,
/// and a telephone does not carry them.
fn samples(packed: &[u8]) -> Vec<i16> {
    let mut state = AdpcmImaState::new();
    let mut last = 0_i32;
    let mut samples = Vec::with_capacity(packed.len() * 6);
    for half in packed.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
        let next = i32::from(decode_adpcm_ima(half, &mut state));
        for part in 1..=FACTOR {
            let between = last + (next - last) * part / FACTOR;
            samples.push(i16::try_from(between).unwrap_or_default());
        }
        last = next;
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Phrase; 10] = [
        Phrase::Wait,
        Phrase::Sorry,
        Phrase::Greeting,
        Phrase::Question,
        Phrase::Heard,
        Phrase::Looking,
        Phrase::Result,
        Phrase::Done,
        Phrase::Failed,
        Phrase::Goodbye,
    ];

    #[test]
    fn every_sentence_is_heard_in_both_languages() {
        let digits = (0..=9).map(Phrase::Digit);
        for phrase in ALL.into_iter().chain(digits) {
            let mut texts = Vec::new();
            for language in ["id", "en"] {
                let (text, samples) = phrase.spoken(language);
                let ms = samples.len() / 24;
                assert!((200..6_000).contains(&ms), "{text}: {ms} ms");
                let loud = samples
                    .iter()
                    .filter(|sample| sample.unsigned_abs() > 1_000);
                let share = loud.count() * 100 / samples.len();
                assert!((10..90).contains(&share), "{text}: {share} % is loud");
                texts.push(text);
            }
            assert_ne!(texts[0], texts[1]);
        }
    }

    #[test]
    fn the_agents_language_is_spoken() {
        for (language, expected) in [
            ("id", "Mohon tunggu sebentar."),
            ("id-ID", "Mohon tunggu sebentar."),
            ("en", "One moment, please."),
            ("ms", "One moment, please."),
            ("", "One moment, please."),
        ] {
            assert_eq!(Phrase::Wait.spoken(language).0, expected);
        }
    }
}
