//! Arrival times without jitter: a packet that was held up, with many others, belongs to an earlier time.

/// Lateness from which the stream is taken for one that has jumped.
const LATE_MAX_MS: u64 = 600;
/// Packets after which the clock follows the least late of them, because the two clocks drift and delays change.
const FOLLOWED: u32 = 64;

#[derive(Debug, Default)]
pub struct ArrivalClock {
    /// The timestamp of the last packet, and when it would have come without jitter.
    last: Option<(u32, u64)>,
    packets: u32,
    least_late_ms: u64,
}

impl ArrivalClock {
    /// When the packet with this timestamp would have come without jitter; never after `now_ms`. `per_ms`: ticks of the
    /// timestamp.
    pub fn without_jitter(&mut self, timestamp: u32, per_ms: u32, now_ms: u64) -> u64 {
        let expected = self.last.and_then(|(last, at_ms)| {
            let since = i64::from(timestamp.wrapping_sub(last) as i32) / i64::from(per_ms);
            at_ms.checked_add_signed(since)
        });
        let late_ms = expected.and_then(|expected| now_ms.checked_sub(expected));
        let Some(late_ms) = late_ms.filter(|late_ms| *late_ms <= LATE_MAX_MS) else {
            self.last = Some((timestamp, now_ms));
            self.packets = 0;
            return now_ms;
        };
        self.least_late_ms = match self.packets {
            0 => late_ms,
            _ => self.least_late_ms.min(late_ms),
        };
        self.packets += 1;
        let mut at_ms = now_ms - late_ms;
        if self.packets == FOLLOWED {
            self.packets = 0;
            at_ms += self.least_late_ms;
        }
        self.last = Some((timestamp, at_ms));
        at_ms
    }
}

#[cfg(test)]
mod tests {
    use super::ArrivalClock;

    /// The times without jitter of packets that come at these times, one every 20 ms of the stream.
    fn times(arrivals: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut clock = ArrivalClock::default();
        let timestamps = (u32::MAX - 400..=u32::MAX).chain(0..).step_by(160);
        let packets = timestamps.zip(arrivals);
        packets
            .map(|(timestamp, now_ms)| clock.without_jitter(timestamp, 8, now_ms))
            .collect()
    }

    #[test]
    fn jitter_and_bursts_are_removed() {
        assert_eq!(
            times([100, 120, 147, 160, 300, 300, 300]),
            [100, 120, 140, 160, 180, 200, 220]
        );
    }

    #[test]
    fn packets_that_come_earlier_and_jumps_move_the_clock() {
        assert_eq!(times([130, 120, 145]), [130, 120, 140]);
        assert_eq!(times([100, 900, 920]), [100, 900, 920]);
    }

    #[test]
    fn a_longer_delay_is_followed() {
        let arrivals = (0..10)
            .map(|n| n * 20)
            .chain((10..200).map(|n| n * 20 + 90));
        let times = times(arrivals);
        assert_eq!(times[20], 400);
        assert_eq!(times[150], 150 * 20 + 90);
    }
}
