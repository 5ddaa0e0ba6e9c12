//! Turns what a speech server sends into samples at [`SPEECH_RATE`]: raw samples of that rate, or a WAV file of any usual rate, which
//! tells its own. Pure.

use dikala_sip::leg::SPEECH_RATE;

/// Rates of WAV files that are taken, in hertz.
const RATES: std::ops::RangeInclusive<u32> = 8_000..=48_000;
/// The longest header of a WAV file, in bytes.
const HEADER_MOST: usize = 64 * 1024;
/// How other files begin.
const OTHERS: [(&[u8], &str); 3] = [(b"ID3", "MP3"), (b"OggS", "Ogg"), (b"fLaC", "FLAC")];

#[derive(Debug, Default)]
pub(super) struct SampleDecoder {
    pending: Vec<u8>,
    /// `None` until the kind of the bytes is known.
    rate: Option<RateConverter>,
}

impl SampleDecoder {
    /// Adds bytes and returns the samples that they complete. Errors are for operators.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<i16>, String> {
        self.pending.extend_from_slice(bytes);
        if self.rate.is_none() {
            let Some((header, rate)) = begin(&self.pending)? else {
                return Ok(Vec::new());
            };
            self.pending.drain(..header);
            self.rate = Some(RateConverter::new(rate));
        }
        let (pairs, _) = self.pending.as_chunks();
        let samples: Vec<i16> = pairs.iter().map(|two| i16::from_le_bytes(*two)).collect();
        self.pending.drain(..samples.len() * 2);
        Ok(match &mut self.rate {
            Some(rate) => rate.run(samples),
            None => samples,
        })
    }
}

/// The length of the header and the rate of the samples behind it; `None` while more bytes are needed.
fn begin(bytes: &[u8]) -> Result<Option<(usize, u32)>, String> {
    let is_other = |(magic, _): &&(&[u8], &str)| bytes.starts_with(magic);
    if let Some((_, name)) = OTHERS.iter().find(is_other) {
        return Err(format!(
            "it sends {name}; raw samples (response_format pcm) or a WAV file are expected"
        ));
    }
    match bytes.len() {
        0..4 => Ok(None),
        _ if bytes.starts_with(b"RIFF") => header(bytes),
        _ => Ok(Some((0, SPEECH_RATE))),
    }
}

/// Reads the chunks of a WAV file up to its samples.
fn header(bytes: &[u8]) -> Result<Option<(usize, u32)>, String> {
    let unreadable = || "it sends a WAV file that cannot be read".to_owned();
    let mut rate = None;
    // Behind `RIFF`, the length of the file, and `WAVE`.
    let mut at = 12;
    while let Some((name, length)) = chunk(bytes, at) {
        if name == b"data" {
            let rate = rate.ok_or_else(unreadable)?;
            return Ok(Some((at + 8, rate)));
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

    fn wav(rate: u32, (kind, channels, bits): (u16, u16, u16), samples: &[i16]) -> Vec<u8> {
        let mut file = b"RIFF\xff\xff\xff\xffWAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0".to_vec();
        file.extend(kind.to_le_bytes());
        file.extend(channels.to_le_bytes());
        file.extend(rate.to_le_bytes());
        file.extend((rate * 2).to_le_bytes());
        file.extend([2, 0]);
        file.extend(bits.to_le_bytes());
        file.extend(b"data\xff\xff\xff\xff");
        file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
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
