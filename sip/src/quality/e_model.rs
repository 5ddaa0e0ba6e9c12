//! An estimate of a call's mean opinion score by the E-model (ITU-T G.107, 2015), simplified. Pure, in whole numbers.
//!
//! - R = 93.2 − Id − Ie,eff: the default values of G.107 with no further impairment (its table 3).
//! - Id = 0.024 d + 0.11 (d − 177.3) above 177.3 ms of one-way delay d: the fit of R. G. Cole and J. H. Rosenbluth, "Voice over IP
//!   performance monitoring", ACM SIGCOMM CCR 31(2), 2001, to the curves of G.107.
//! - Ie,eff = Ie + (95 − Ie) Ppl / (Ppl + Bpl) for independent losses of Ppl percent (equation 7-29).
//! - MOS = 1 + 0.035 R + 7·10⁻⁶ R (R − 60) (100 − R) (annex B).
//!
//! Ie = 0 and Bpl = 25.1 are G.711's with concealment (ITU-T G.113, appendix I). Opus and G.722 have no values on this narrowband
//! scale and count the same. So the estimate shows what the network costs, and does not compare codecs.

/// R without any impairment, in hundredths.
const R_MAX: i64 = 9_320;
/// Bpl in hundredths of a percent.
const ROBUSTNESS: i64 = 2_510;
/// Ms of delay beyond the network's: a packet of 20 ms that has to be complete.
const PACKET_MS: i64 = 20;

/// The impairments of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Impairments {
    /// Packets that were due, and those of them that were not heard.
    pub due: u64,
    pub lost: u64,
    /// Of the network, both ways.
    pub round_trip_ms: u32,
    /// Time for which packets wait for later ones.
    pub jitter_ms: u32,
}

/// The mean opinion score in hundredths, 100 to 441; `None` if no packet was due.
pub fn mos(of: Impairments) -> Option<u16> {
    let lost = i64::try_from(of.lost.min(of.due)).ok()?;
    let due = i64::try_from(of.due).ok()?;
    let loss = lost.checked_mul(10_000)?.checked_div(due)?;
    let delay = i64::from(of.round_trip_ms) / 2 + i64::from(of.jitter_ms) + PACKET_MS;
    let r = R_MAX - delay_impairment(delay) - loss_impairment(loss);
    u16::try_from(score(r)).ok()
}

/// Id in hundredths, of a delay in milliseconds.
fn delay_impairment(ms: i64) -> i64 {
    // In thousandths of hundredths.
    let above = (10 * ms - 1_773).max(0);
    (2_400 * ms + 1_100 * above) / 1_000
}

/// Ie,eff in hundredths, of a loss in hundredths of a percent.
fn loss_impairment(loss: i64) -> i64 {
    9_500 * loss / (loss + ROBUSTNESS)
}

/// The score in hundredths, of R in hundredths.
fn score(r: i64) -> i64 {
    let r = r.clamp(0, 10_000);
    let cubic = 7 * r * (r - 6_000) * (10_000 - r) / 10_000_000_000;
    // The polynomial falls a little below 1 for small R.
    (100 + 35 * r / 1_000 + cubic).max(100)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Table B.1 of G.107.
    #[test]
    fn scores_are_those_of_the_recommendation() {
        for (r, expected) in [
            (93, 441),
            (90, 434),
            (80, 403),
            (70, 360),
            (60, 310),
            (50, 258),
            (0, 100),
        ] {
            let found = score(if r == 93 { R_MAX } else { 100 * r });
            assert!((expected - found).abs() <= 1, "{r}: {found}");
        }
    }

    #[test]
    fn losses_and_delays_cost() {
        let of = |lost, round_trip_ms, jitter_ms| {
            mos(Impairments {
                due: 1_000,
                lost,
                round_trip_ms,
                jitter_ms,
            })
        };
        // Computed by hand from the formulas above, within a hundredth.
        for (lost, round_trip_ms, jitter_ms, expected) in [
            (0, 0, 0, 440),
            (10, 40, 5, 430),
            (50, 100, 20, 383),
            (200, 0, 0, 261),
            (0, 600, 0, 359),
        ] {
            let found = of(lost, round_trip_ms, jitter_ms).map_or(0, i32::from);
            assert!(
                (expected - found).abs() <= 1,
                "{lost} {round_trip_ms} {jitter_ms}: {found}"
            );
        }
        assert_eq!(mos(Impairments::default()), None);
    }

    proptest! {
        #[test]
        fn any_counts_have_a_score(due: u64, lost: u64, round_trip_ms: u32, jitter_ms: u32) {
            let found = mos(Impairments { due, lost, round_trip_ms, jitter_ms });
            prop_assert!(found.is_none_or(|found| (100..=441).contains(&found)));
        }
    }
}
