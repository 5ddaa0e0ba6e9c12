//! Turns what a speech server sends into samples at [`SPEECH_RATE`]: raw samples of that rate, or a WAV file of any usual rate, which
//! tells its own. Pure.

use dikala_sip::leg::SPEECH_RATE;

/// Rates of WAV files that are taken, in hertz.
const RATES: std::ops::RangeInclusive<u32> = 8_000..=48_000;
/// The longest header of a WAV file, in bytes.
const HEADER_MOST: usize = 64 * 1024;
/// How other files begin.
const OTHERS: [(&[u8], &str); 3] = [(b"ID3", "MP3"), (b"OggS", "Ogg"), (b"fLaC", "FLAC")];
/// Parts of the media types of other files, which may begin with anything.
const OTHER_KINDS: [(&str, &str); 8] = [
    ("mpeg", "MP3"),
    ("mp3", "MP3"),
    ("aac", "AAC"),
    ("ogg", "Ogg"),
    ("opus", "Opus"),
    ("flac", "FLAC"),
    ("webm", "WebM"),
    ("mp4", "MP4"),
];

/// Refuses a media type that is no speech which can be read. Many servers tell none, or a wrong one that is harmless.
pub(super) fn refuse_kind(kind: &str) -> Result<(), String> {
    if kind == "application/json" || kind.starts_with("text/") {
        return Err("it sends text in place of speech".to_owned());
    }
    let other = OTHER_KINDS.iter().find(|(part, _)| kind.contains(part));
    other.map_or(Ok(()), |(_, name)| Err(unknown(name)))
}

fn unknown(name: &str) -> String {
    format!("it sends {name}; raw samples (response_format pcm) or a WAV file are expected")
}

#[derive(Debug, Default)]
pub(super) struct SampleDecoder {
    pending: Vec<u8>,
    /// Bytes of samples that are still to come, if a file tells so. What follows is something else.
    left: Option<usize>,
    /// `None` until the kind of the bytes is known.
    rate: Option<RateConverter>,
}

impl SampleDecoder {
    /// Adds bytes and returns the samples that they complete. Errors are for operators.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<i16>, String> {
        self.pending.extend_from_slice(bytes);
        if self.rate.is_none() {
            let Some(begun) = begin(&self.pending)? else {
                return Ok(Vec::new());
            };
            self.pending.drain(..begun.header);
            self.left = begun.length;
            self.rate = Some(RateConverter::new(begun.rate));
        }
        if let Some(left) = self.left {
            self.pending.truncate(left);
        }
        let (pairs, _) = self.pending.as_chunks();
        let samples: Vec<i16> = pairs.iter().map(|two| i16::from_le_bytes(*two)).collect();
        self.pending.drain(..samples.len() * 2);
        self.left = self.left.map(|left| left - samples.len() * 2);
        Ok(match &mut self.rate {
            Some(rate) => rate.run(samples),
            None => samples,
        })
    }
}

/// The bytes before the samples.
struct SpeechBegin {
    /// Their number.
    header: usize,
    /// The rate of the samples, and their length in bytes if it is told.
    rate: u32,
    length: Option<usize>,
}

/// `None` while more bytes are needed.
fn begin(bytes: &[u8]) -> Result<Option<SpeechBegin>, String> {
    let is_other = |(magic, _): &&(&[u8], &str)| bytes.starts_with(magic);
    if let Some((_, name)) = OTHERS.iter().find(is_other) {
        return Err(unknown(name));
    }
    match bytes.len() {
        0..4 => Ok(None),
        _ if bytes.starts_with(b"RIFF") => header(bytes),
        _ => Ok(Some(SpeechBegin {
            header: 0,
            rate: SPEECH_RATE,
            length: None,
        })),
    }
}

/// Reads the chunks of a WAV file up to its samples.
fn header(bytes: &[u8]) -> Result<Option<SpeechBegin>, String> {
    let unreadable = || "it sends a WAV file that cannot be read".to_owned();
    let mut rate = None;
    // Behind `RIFF`, the length of the file, and `WAVE`.
    let mut at = 12;
    while let Some((name, length)) = chunk(bytes, at) {
        if name == b"data" {
            let rate = rate.ok_or_else(unreadable)?;
            return Ok(Some(SpeechBegin {
                header: at + 8,
                rate,
                // Servers that do not know it yet tell one of these.
                length: Some(length).filter(|length| !matches!(length, 0 | 0xffff_ffff)),
            }));
        }
        if length > HEADER_MOST || at > HEADER_MOST {
            return Err(unreadable());
        }
        if name == b"fmt " {
            let Some(format) = bytes.get(at + 8..at + 24) else {
                break;
            };
            rate = Some(rate_of(format)?);
        }
        // Chunks have even lengths.
        at += 8 + length.next_multiple_of(2);
    }
    Ok(None)
}

fn chunk(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let (name, length) = bytes.get(at..at + 8)?.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(length.try_into().ok()?);
    Some((name, usize::try_from(length).ok()?))
}

/// The rate in the first 16 bytes of a `fmt ` chunk.
fn rate_of(format: &[u8]) -> Result<u32, String> {
    let number = |at: usize| u16::from_le_bytes([format[at], format[at + 1]]);
    let rate = u32::from(number(4)) | u32::from(number(6)) << 16;
    let (kind, channels, bits) = (number(0), number(2), number(14));
    // PCM, or the extensible format that may hold it.
    let is_known = matches!(kind, 1 | 0xfffe) && channels == 1 && bits == 16;
    if is_known && RATES.contains(&rate) {
        return Ok(rate);
    }
    Err(format!(
        "it sends a WAV file of {channels} channels, {bits} bits and {rate} Hz; one channel, 16 bits, and 8,000 to 48,000 Hz are \
         expected"
    ))
}

/// Brings samples to [`SPEECH_RATE`] by cubic interpolation. It filters nothing: speech has little where that would count.
#[derive(Debug)]
struct RateConverter {
    rate: u32,
    /// The last three samples, then new ones.
    line: Vec<i16>,
    /// The place of the next output behind the second sample of the line, in steps of a sample / [`SPEECH_RATE`].
    next: u64,
}

impl RateConverter {
    fn new(rate: u32) -> Self {
        Self {
            rate,
            line: vec![0; 3],
            next: 0,
        }
    }

    fn run(&mut self, samples: Vec<i16>) -> Vec<i16> {
        if self.rate == SPEECH_RATE {
            return samples;
        }
        self.line.extend(samples);
        let step = u64::from(SPEECH_RATE);
        let mut out = Vec::new();
        while let Ok(from) = usize::try_from(self.next / step)
            && let Some(four) = self.line[from..].first_chunk::<4>()
        {
            out.push(between(four, (self.next % step).cast_signed()));
            self.next += u64::from(self.rate);
        }
        let taken = self.line.len() - 3;
        self.line.drain(..taken);
        self.next -= taken as u64 * step;
        out
    }
}

/// The value at `at` / [`SPEECH_RATE`] between the second and the third sample (Catmull and Rom).
fn between(four: &[i16; 4], at: i64) -> i16 {
    let [a, b, c, d] = four.map(i64::from);
    let step = i64::from(SPEECH_RATE);
    let mut value = 3 * (b - c) + d - a;
    for term in [2 * a - 5 * b + 4 * c - d, c - a] {
        value = value * at / step + term;
    }
    let value = b + value * at / (2 * step);
    value.clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as i16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn wav(rate: u32, format: (u16, u16, u16), samples: &[i16]) -> Vec<u8> {
        let mut file = wav_of(rate, format, u32::MAX);
        file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
        file
    }

    /// The header of a file that tells this length.
    fn wav_of(rate: u32, (kind, channels, bits): (u16, u16, u16), length: u32) -> Vec<u8> {
        let mut file = b"RIFF\xff\xff\xff\xffWAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0".to_vec();
        file.extend(kind.to_le_bytes());
        file.extend(channels.to_le_bytes());
        file.extend(rate.to_le_bytes());
        file.extend((rate * 2).to_le_bytes());
        file.extend([2, 0]);
        file.extend(bits.to_le_bytes());
        file.extend(b"data");
        file.extend(length.to_le_bytes());
        file
    }

    /// A saw tooth of `hertz`.
    fn tone(rate: u32, hertz: u32, count: u32) -> Vec<i16> {
        let at = |number| (number * hertz % rate * 20_000 / rate) as i16 - 10_000;
        (0..count).map(at).collect()
    }

    fn decoded(pieces: &[&[u8]]) -> Result<Vec<i16>, String> {
        let mut decoder = SampleDecoder::default();
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(decoder.push(piece)?);
        }
        Ok(all)
    }

    /// Length and pitch stay what they are.
    #[rstest]
    #[case(8_000)]
    #[case(16_000)]
    #[case(22_050)]
    #[case(24_000)]
    #[case(44_100)]
    #[case(48_000)]
    fn a_file_tells_its_rate(#[case] rate: u32) {
        let second = tone(rate, 100, rate);
        let heard = decoded(&[&wav(rate, (1, 1, 16), &second)]).unwrap();
        assert!(heard.len().abs_diff(24_000) <= 8, "{}", heard.len());
        let jumps = heard.windows(240).step_by(240).filter(|it| {
            let (low, high) = (it.iter().min(), it.iter().max());
            low < Some(&-8_000) && high > Some(&8_000)
        });
        assert!(jumps.count() >= 98);
    }

    #[rstest]
    #[case(&wav(22_050, (1, 2, 16), &[]), "2 channels")]
    #[case(&wav(22_050, (3, 1, 32), &[]), "32 bits")]
    #[case(&wav(96_000, (1, 1, 16), &[]), "96000 Hz")]
    #[case(&wav(0, (1, 1, 16), &[]), "0 Hz")]
    #[case(b"RIFF....WAVEdata....", "cannot be read")]
    #[case(b"RIFF....WAVEabcd\xff\xff\xff\x7f", "cannot be read")]
    #[case(b"ID3\x04", "MP3")]
    #[case(b"OggS", "Ogg")]
    fn other_sounds_are_told(#[case] bytes: &[u8], #[case] words: &str) {
        let told = decoded(&[bytes]).unwrap_err();
        assert!(told.contains(words), "{told}");
    }

    #[rstest]
    #[case("", None)]
    #[case("audio/pcm", None)]
    #[case("audio/x-wav", None)]
    #[case("application/octet-stream", None)]
    #[case("application/json", Some("text"))]
    #[case("text/html", Some("text"))]
    #[case("audio/mpeg", Some("MP3"))]
    #[case("audio/mp3", Some("MP3"))]
    #[case("audio/aac", Some("AAC"))]
    #[case("audio/ogg", Some("Ogg"))]
    #[case("application/ogg", Some("Ogg"))]
    #[case("audio/opus", Some("Opus"))]
    #[case("audio/x-flac", Some("FLAC"))]
    #[case("audio/webm", Some("WebM"))]
    #[case("video/mp4", Some("MP4"))]
    fn kinds_of_answers_are_told(#[case] kind: &str, #[case] words: Option<&str>) {
        let told = refuse_kind(kind).err();
        let is_told = told
            .as_ref()
            .zip(words)
            .is_some_and(|(told, words)| told.contains(words));
        assert!(is_told || told.is_none() && words.is_none(), "{told:?}");
    }

    #[rstest]
    #[case(4, &[1, 2])]
    #[case(5, &[1, 2])]
    #[case(0, &[1, 2, 3])]
    #[case(7_000, &[1, 2, 3])]
    #[case(u32::MAX, &[1, 2, 3])]
    fn what_follows_the_samples_of_a_file_is_not_played(
        #[case] length: u32,
        #[case] heard: &[i16],
    ) {
        let mut file = wav_of(SPEECH_RATE, (1, 1, 16), length);
        file.extend([1, 0, 2, 0, 3, 0]);
        for cut in 0..=file.len() {
            let (first, second) = file.split_at(cut);
            assert_eq!(
                decoded(&[first, second]).as_deref(),
                Ok(heard),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn raw_samples_stay_as_they_are() {
        assert_eq!(decoded(&[&[1, 0, 2], &[0, 3, 0, 4]]), Ok(vec![1, 2, 3]));
        assert_eq!(decoded(&[b"RIF"]), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(rate in 8_000_u32..48_001, cut in 0_usize..400, samples in prop::collection::vec(any::<i16>(), 0..200)) {
            let file = wav(rate, (1, 1, 16), &samples);
            let (first, second) = file.split_at(cut.min(file.len()));
            prop_assert_eq!(decoded(&[first, second]), decoded(&[&file]));
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), is_file in any::<bool>()) {
            let begin: &[u8] = if is_file { b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0" } else { b"" };
            let _ = decoded(&[begin, &bytes]);
        }
    }
}
