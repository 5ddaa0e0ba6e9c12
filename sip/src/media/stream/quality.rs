//! The quality of the stream, from its counts.

use super::{MediaStream, UNHEARD_TICKS};
use crate::{
    media::sdp::codec_name,
    quality::{DirectionQuality, Impairments, LegQuality, mos},
};

/// The score of a direction from which nothing ever came: the lowest.
const UNHEARD_MOS: u16 = 100;

/// Counts since the call began; `peer_` fields are the other side's report about our packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamStatistics {
    /// With those that came again.
    pub received: u64,
    /// Given up by the jitter buffer.
    pub lost: u64,
    /// Came after they were given up.
    pub late: u64,
    pub repeated: u64,
    /// Malformed, or from a stranger.
    pub invalid: u64,
    pub jitter_ms: u32,
    pub sent: u64,
    pub peer_lost: u32,
    pub peer_jitter_ms: u32,
    pub round_trip_ms: Option<u32>,
    /// Audio in place of lost packets.
    pub concealed_ms: u64,
}

impl StreamStatistics {
    /// Received packets, each counted once.
    pub fn distinct(&self) -> u64 {
        self.received.saturating_sub(self.repeated)
    }
}

impl MediaStream {
    /// The quality since the call began.
    pub fn quality(&self) -> LegQuality {
        let all = self.statistics();
        let round_trip_ms = all.round_trip_ms.unwrap_or_default();
        let of = |due, lost, jitter: Option<u32>| {
            mos(Impairments {
                due,
                lost,
                round_trip_ms,
                jitter_ms: jitter.unwrap_or_default(),
            })
        };
        let jitter_p95_ms = self.receiver.jitter_samples.p95();
        let received = DirectionQuality {
            packets: all.distinct(),
            lost: Some(all.lost),
            late: Some(all.late),
            jitter_p95_ms,
            concealed_ms: Some(all.concealed_ms),
            mos: None,
        };
        let is_unheard = all.received == 0 && self.unheard_ticks >= UNHEARD_TICKS;
        let heard_mos = of(received.due(), all.lost, jitter_p95_ms);
        let peer_jitter_ms = self.peer_jitter.p95();
        // Without a report nothing is known about what we sent.
        let peer_lost = peer_jitter_ms.map(|_| u64::from(all.peer_lost));
        LegQuality {
            codec: codec_name(self.terms.codec),
            round_trip_ms: all.round_trip_ms,
            received: DirectionQuality {
                mos: heard_mos.or(is_unheard.then_some(UNHEARD_MOS)),
                ..received
            },
            sent: DirectionQuality {
                packets: all.sent,
                lost: peer_lost,
                late: None,
                jitter_p95_ms: peer_jitter_ms,
                concealed_ms: None,
                mos: peer_lost.and_then(|lost| of(all.sent, lost, peer_jitter_ms)),
            },
        }
    }
}
