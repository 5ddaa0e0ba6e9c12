//! The cost of the voices, in rupiah.

use crate::settings::Prices;

/// Prices are in thousandths of a rupiah per million units, and time is counted in thousandths of its unit.
const PER_RUPIAH: u128 = MILLION * 1_000 * MS_PER_SECOND;
const MS_PER_SECOND: u128 = 1_000;
const MILLION: u128 = 1_000_000;
/// The service accepts no larger cost.
const IDR_MAX: u64 = 1_000_000_000;

/// The units that a provider bills. No unit is counted twice: cached tokens are in no other field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens, by modality and direction.
    pub text_in: u64,
    pub audio_in: u64,
    pub text_out: u64,
    pub audio_out: u64,
    /// Input tokens that the provider had in its cache.
    pub cached_in: u64,
    /// Audio that was transcribed.
    pub milliseconds: u64,
    /// Text that was spoken.
    pub characters: u64,
}

/// The cost of a call's voices so far, in parts of a rupiah.
#[derive(Debug, Default)]
pub(crate) struct Meter(u128);

impl Meter {
    /// Adds what a provider has used, at its prices.
    pub(crate) fn add(&mut self, usage: Usage, prices: Option<Prices>) {
        let Some(prices) = prices else {
            return;
        };
        let units = [
            (usage.text_in, prices.text_in),
            (usage.audio_in, prices.audio_in),
            (usage.cached_in, prices.cached_in),
            (usage.text_out, prices.text_out),
            (usage.audio_out, prices.audio_out),
            (usage.characters, prices.characters),
        ];
        let of = |(count, price): (u64, u64)| u128::from(count).saturating_mul(u128::from(price));
        let units = units.map(|unit| of(unit).saturating_mul(MS_PER_SECOND));
        let seconds = of((usage.milliseconds, prices.seconds));
        let all = units.into_iter().chain([seconds]);
        self.0 = all.fold(self.0, u128::saturating_add);
    }

    /// The cost in millionths of a rupiah.
    pub(crate) fn millionths(&self) -> u64 {
        let millionths = self.0 / (PER_RUPIAH / MILLION);
        u64::try_from(millionths).unwrap_or(u64::MAX)
    }

    /// The cost to the nearest rupiah.
    pub(crate) fn idr(&self) -> u64 {
        let idr = self.0.saturating_add(PER_RUPIAH / 2) / PER_RUPIAH;
        u64::try_from(idr).unwrap_or(u64::MAX).min(IDR_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_times_prices_to_the_nearest_rupiah() {
        let prices = Prices {
            text_in: 8_000_000,
            audio_in: 50_000_000,
            text_out: 33_000_500,
            audio_out: 200_000_000,
            cached_in: 1_000_000,
            seconds: 90_000_000,
            characters: 240_000,
        };
        let mut meter = Meter::default();
        assert_eq!(meter.idr(), 0);
        for _ in 0..2 {
            let usage = Usage {
                text_in: 1_000,
                audio_in: 2_500,
                text_out: 100,
                audio_out: 1_200,
                cached_in: 10_000,
                milliseconds: 61_500,
                characters: 2_000,
            };
            meter.add(usage, Some(prices));
            meter.add(usage, None);
        }
        // 16 + 250 + 6.6001 + 480 + 20 + 11.07 + 0.96
        assert_eq!((meter.idr(), meter.millionths()), (785, 784_630_100));
    }

    #[test]
    fn what_cannot_be_is_bounded() {
        let prices = Prices {
            text_in: u64::MAX,
            audio_in: u64::MAX,
            text_out: u64::MAX,
            audio_out: u64::MAX,
            cached_in: u64::MAX,
            seconds: u64::MAX,
            characters: u64::MAX,
        };
        let mut meter = Meter::default();
        for _ in 0..2 {
            let usage = Usage {
                text_in: u64::MAX,
                audio_in: u64::MAX,
                text_out: u64::MAX,
                audio_out: u64::MAX,
                cached_in: u64::MAX,
                milliseconds: u64::MAX,
                characters: u64::MAX,
            };
            meter.add(usage, Some(prices));
        }
        assert_eq!(meter.idr(), IDR_MAX);
    }
}
