//! The cost of the model, in rupiah.

use crate::{settings::Prices, voice::Usage};

/// Prices are in thousandths of a rupiah per million tokens.
const PER_RUPIAH: u128 = 1_000_000 * 1_000;
/// The service accepts no larger cost.
const IDR_MAX: u64 = 1_000_000_000;

/// The tokens that a call has used.
#[derive(Debug, Default)]
pub(super) struct Meter(Usage);

impl Meter {
    pub(super) fn add(&mut self, usage: Usage) {
        let total = &mut self.0;
        total.text_in = total.text_in.saturating_add(usage.text_in);
        total.audio_in = total.audio_in.saturating_add(usage.audio_in);
        total.text_out = total.text_out.saturating_add(usage.text_out);
        total.audio_out = total.audio_out.saturating_add(usage.audio_out);
    }

    /// The cost to the nearest rupiah; `None` without prices.
    pub(super) fn idr(&self, prices: Option<Prices>) -> Option<u64> {
        let prices = prices?;
        let sum: u128 = [
            (self.0.text_in, prices.text_in),
            (self.0.audio_in, prices.audio_in),
            (self.0.text_out, prices.text_out),
            (self.0.audio_out, prices.audio_out),
        ]
        .into_iter()
        .map(|(tokens, price)| u128::from(tokens).saturating_mul(u128::from(price)))
        .fold(0, u128::saturating_add);
        let idr = sum.saturating_add(PER_RUPIAH / 2) / PER_RUPIAH;
        Some(u64::try_from(idr).unwrap_or(u64::MAX).min(IDR_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_by_modality_times_prices_to_the_nearest_rupiah() {
        let prices = Prices {
            text_in: 8_000_000,
            audio_in: 50_000_000,
            text_out: 33_000_500,
            audio_out: 200_000_000,
        };
        let mut meter = Meter::default();
        assert_eq!(meter.idr(Some(prices)), Some(0));
        for _ in 0..2 {
            meter.add(Usage {
                text_in: 1_000,
                audio_in: 2_500,
                text_out: 100,
                audio_out: 1_200,
            });
        }
        // 16 + 250 + 6.6001 + 480
        assert_eq!(meter.idr(Some(prices)), Some(753));
        assert_eq!(meter.idr(None), None);
    }

    #[test]
    fn what_cannot_be_is_bounded() {
        let prices = Prices {
            text_in: u64::MAX,
            audio_in: u64::MAX,
            text_out: u64::MAX,
            audio_out: u64::MAX,
        };
        let mut meter = Meter::default();
        for _ in 0..2 {
            meter.add(Usage {
                text_in: u64::MAX,
                audio_in: u64::MAX,
                text_out: u64::MAX,
                audio_out: u64::MAX,
            });
        }
        assert_eq!(meter.idr(Some(prices)), Some(IDR_MAX));
    }
}
