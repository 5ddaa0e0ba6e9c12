//! The jitter buffer: puts packets back in order. It waits for a missing packet until four later ones have come, for at most 60
//! ms.
//!
//! The reader needs order, not pace, so nothing is delayed while no packet is missing.

/// Later packets that turn a gap into a loss.
pub const WINDOW: usize = 4;
/// The longest wait of a packet behind a gap.
pub const WAIT_MS: u64 = 60;

/// A larger step forward is another stream, not a loss (RFC 3550, appendix A.1).
const DROPOUT_MAX: u16 = 3_000;
/// A larger step back is another stream, too.
const MISORDER_MAX: u16 = 100;

/// The packets that wait.
#[derive(Debug)]
pub struct JitterBuffer<T> {
    /// The next sequence number; `None` before the first packet.
    next: Option<u16>,
    held: Vec<HeldPacket<T>>,
    /// Bitmap of the numbers before `next` that came; the lowest bit is the last.
    came: u128,
    /// The number that would confirm a far jump.
    confirms: Option<u16>,
}

#[derive(Debug)]
struct HeldPacket<T> {
    sequence: u16,
    since_ms: u64,
    item: T,
}

/// The outcome for a pushed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushOutcome {
    Taken,
    /// It had come before.
    Repeated,
    /// It had been given up as lost.
    Late,
    /// It is far from the others; the next packet decides whether the stream jumped.
    Stray,
    /// A new numbering begins here.
    Restarted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderedItem<T> {
    Packet(T),
    /// This many packets are given up.
    Lost(u16),
}

impl<T> Default for JitterBuffer<T> {
    fn default() -> Self {
        Self {
            next: None,
            held: Vec::with_capacity(WINDOW),
            came: 0,
            confirms: None,
        }
    }
}

impl<T> JitterBuffer<T> {
    /// Adds a packet. Everything that is ready must be popped before the next push.
    pub fn push(&mut self, sequence: u16, now_ms: u64, item: T) -> PushOutcome {
        let next = *self.next.get_or_insert(sequence);
        let ahead = sequence.wrapping_sub(next);
        let behind = next.wrapping_sub(sequence);
        if ahead < DROPOUT_MAX {
            if self.held.iter().any(|held| held.sequence == sequence) {
                return PushOutcome::Repeated;
            }
            if self.held.len() == WINDOW {
                return PushOutcome::Late;
            }
            self.confirms = None;
            self.hold(sequence, now_ms, item);
            PushOutcome::Taken
        } else if behind <= MISORDER_MAX {
            if self.came >> (behind - 1) & 1 == 1 {
                PushOutcome::Repeated
            } else {
                // It may come again.
                self.came |= 1 << (behind - 1);
                PushOutcome::Late
            }
        } else if self.confirms == Some(sequence) {
            *self = Self::default();
            self.next = Some(sequence);
            self.hold(sequence, now_ms, item);
            PushOutcome::Restarted
        } else {
            self.confirms = Some(sequence.wrapping_add(1));
            PushOutcome::Stray
        }
    }

    fn hold(&mut self, sequence: u16, since_ms: u64, item: T) {
        self.held.push(HeldPacket {
            sequence,
            since_ms,
            item,
        });
    }

    /// The next packet or loss that is ready.
    pub fn pop(&mut self, now_ms: u64) -> Option<OrderedItem<T>> {
        let next = self.next?;
        let ahead = |held: &HeldPacket<T>| held.sequence.wrapping_sub(next);
        let nearest = (0..self.held.len()).min_by_key(|at| ahead(&self.held[*at]))?;
        let gap = ahead(&self.held[nearest]);
        if gap == 0 {
            let held = self.held.swap_remove(nearest);
            self.next = Some(next.wrapping_add(1));
            self.came = self.came << 1 | 1;
            return Some(OrderedItem::Packet(held.item));
        }
        let waited = self
            .held
            .iter()
            .any(|held| now_ms.saturating_sub(held.since_ms) >= WAIT_MS);
        if self.held.len() < WINDOW && !waited {
            return None;
        }
        self.next = Some(next.wrapping_add(gap));
        self.came = self.came.checked_shl(u32::from(gap)).unwrap_or(0);
        Some(OrderedItem::Lost(gap))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{JitterBuffer, OrderedItem, PushOutcome, WAIT_MS, WINDOW};

    /// The output for these packets, pushed one per millisecond.
    fn through(sequences: impl IntoIterator<Item = u16>) -> (Vec<u16>, u64, Vec<PushOutcome>) {
        let mut window = JitterBuffer::default();
        let (mut out, mut lost, mut pushed) = (Vec::new(), 0, Vec::new());
        let mut drain = |window: &mut JitterBuffer<u16>, now| {
            while let Some(next) = window.pop(now) {
                match next {
                    OrderedItem::Packet(packet) => out.push(packet),
                    OrderedItem::Lost(count) => lost += u64::from(count),
                }
            }
        };
        for (now, sequence) in (0..).zip(sequences) {
            pushed.push(window.push(sequence, now / 100, sequence));
            drain(&mut window, now / 100);
        }
        drain(&mut window, 1_000_000);
        (out, lost, pushed)
    }

    #[test]
    fn a_gap_is_given_up_when_four_later_ones_have_come() {
        let mut window = JitterBuffer::default();
        assert_eq!(window.push(65_534, 0, 'a'), PushOutcome::Taken);
        assert_eq!(window.pop(0), Some(OrderedItem::Packet('a')));
        for (sequence, item) in [(0, 'c'), (1, 'd'), (2, 'e')] {
            assert_eq!(window.push(sequence, 0, item), PushOutcome::Taken);
            assert_eq!(window.pop(0), None);
        }
        assert_eq!(window.push(3, 0, 'f'), PushOutcome::Taken);
        assert_eq!(window.pop(0), Some(OrderedItem::Lost(1)));
        assert_eq!(window.pop(0), Some(OrderedItem::Packet('c')));
        assert_eq!(window.push(65_535, 0, 'b'), PushOutcome::Late);
        assert_eq!(window.push(65_535, 0, 'b'), PushOutcome::Repeated);
        assert_eq!(window.push(65_534, 0, 'a'), PushOutcome::Repeated);
        assert_eq!(window.push(2, 0, 'e'), PushOutcome::Repeated, "it waits");
    }

    #[test]
    fn a_gap_is_given_up_after_a_while() {
        let mut window = JitterBuffer::default();
        window.push(7, 0, 'a');
        window.pop(0);
        window.push(9, 10, 'c');
        assert_eq!(window.pop(10 + WAIT_MS - 1), None);
        assert_eq!(window.pop(10 + WAIT_MS), Some(OrderedItem::Lost(1)));
        assert_eq!(window.pop(10 + WAIT_MS), Some(OrderedItem::Packet('c')));
    }

    #[test]
    fn a_far_jump_counts_once_the_next_packet_confirms_it() {
        let (out, lost, pushed) = through([1, 2, 30_000, 3, 40_000, 40_001, 40_002]);
        assert_eq!(out, [1, 2, 3, 40_001, 40_002]);
        assert_eq!(lost, 0);
        assert_eq!(pushed[2], PushOutcome::Stray);
        assert_eq!(pushed[5], PushOutcome::Restarted);
    }

    #[test]
    fn a_long_loss_is_counted_whole() {
        let (out, lost, _) = through([10, 11, 1_000, 1_001, 1_002, 1_003, 1_004]);
        assert_eq!(out, [10, 11, 1_000, 1_001, 1_002, 1_003, 1_004]);
        assert_eq!(lost, 988);
    }

    proptest! {
        #[test]
        fn whatever_is_shuffled_within_the_window_comes_out_in_order(
            first: u16,
            count in 1_u16..300,
            keys in proptest::collection::vec(0_u16..u16::try_from(WINDOW).expect("small"), 300),
        ) {
            // The first packet keeps its place, because counting begins with it; others move by at most three.
            let mut order: Vec<u16> = (1..count).collect();
            order.sort_by_key(|n| n + keys[usize::from(*n)]);
            let sent = std::iter::once(0).chain(order).map(|n| first.wrapping_add(n));
            let (out, lost, _) = through(sent);
            let expected: Vec<u16> = (0..count).map(|n| first.wrapping_add(n)).collect();
            prop_assert_eq!(out, expected);
            prop_assert_eq!(lost, 0);
        }

        #[test]
        fn nothing_comes_out_twice_or_out_of_order_whatever_comes_in(
            steps in proptest::collection::vec(prop_oneof![9 => -8_i32..9, 1 => any::<i32>()], 0..300),
        ) {
            let mut at = 0_u16;
            let sequences = steps.into_iter().map(|step| {
                at = at.wrapping_add(step as u16);
                at
            });
            let (out, _, pushed) = through(sequences.collect::<Vec<_>>());
            let restarts = pushed.iter().filter(|pushed| **pushed == PushOutcome::Restarted).count();
            let taken = pushed.iter().filter(|pushed| **pushed == PushOutcome::Taken).count();
            prop_assert!(out.len() <= taken + restarts);
            let steps_back = out.windows(2).filter(|pair| pair[1].wrapping_sub(pair[0]) == 0 || pair[1].wrapping_sub(pair[0]) > 3_004);
            prop_assert!(steps_back.count() <= restarts);
        }
    }
}
