//! The room of a phone: it returns what the phone plays, and has sounds of its own.

use super::audio::{PACKET_MS, SAMPLES};

/// Sound that reaches a phone beside its user's voice, at 8 kHz.
#[derive(Debug, Default)]
pub struct Room {
    /// The phone's sound returns after this many packets, with this many thousandths of its amplitude.
    echo: Option<(usize, i32)>,
    /// Is heard again and again.
    background: Vec<i16>,
    /// Packets that were heard in this room.
    heard: usize,
    /// The timestamp of the first packet that was played, and those heard by then.
    first: Option<(u32, usize)>,
    /// By their number; `None` for those that were lost.
    played: Vec<Option<Vec<i32>>>,
}

impl Room {
    pub fn returning(delay_ms: usize, thousandths: i32) -> Self {
        Self {
            echo: Some((delay_ms / PACKET_MS, thousandths)),
            ..Self::default()
        }
    }

    pub fn with(background: Vec<i16>) -> Self {
        Self {
            background,
            ..Self::default()
        }
    }

    /// The phone plays a packet.
    pub fn play(&mut self, timestamp: u32, samples: &[i32]) {
        let (first, _) = *self.first.get_or_insert((timestamp, self.heard));
        let number = timestamp.wrapping_sub(first) as usize / SAMPLES;
        let length = self.played.len().max(number + 1);
        self.played.resize(length, None);
        self.played[number] = Some(samples.to_vec());
    }

    /// The next packet of its sound.
    pub fn next(&mut self) -> Vec<i32> {
        let at = self.heard * SAMPLES;
        let background = self.background.iter().cycle();
        let background = background.skip(at % self.background.len().max(1));
        let mut sound: Vec<i32> = background.take(SAMPLES).map(|it| i32::from(*it)).collect();
        sound.resize(SAMPLES, 0);
        if let Some((returned, thousandths)) = self.returned() {
            for (sum, sample) in sound.iter_mut().zip(returned) {
                *sum += sample * thousandths / 1_000;
            }
        }
        self.heard += 1;
        sound
    }

    /// The sound that the phone played when the delay began.
    fn returned(&self) -> Option<(&[i32], i32)> {
        let (delay, thousandths) = self.echo?;
        let number = (self.heard - self.first?.1).checked_sub(delay)?;
        let returned = self.played.get(number)?.as_deref()?;
        Some((returned, thousandths))
    }
}
