//! The trace of a request or call, as in W3C Trace Context.

use sea_orm::DeriveValueType;

/// A `traceparent` of version 00: a received one, or one for an outgoing request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, DeriveValueType)]
pub struct TraceParent(String);

/// The trace's id in the text.
const TRACE_ID: std::ops::Range<usize> = 3..35;
/// The sender's span id in the text.
const PARENT_ID: std::ops::Range<usize> = 36..52;
/// The only defined flag: the trace is recorded.
const SAMPLED: u8 = 1;

impl TraceParent {
    /// Parses version 00 or a later one. None if it is invalid, which counts as absent.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut hex = |digits: usize| {
            let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
            parts
                .next()
                .filter(|part| part.len() == digits && part.bytes().all(is_hex))
        };
        let (version, trace, parent, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
        let is_nothing = |id: &str| id.bytes().all(|b| b == b'0');
        let more = parts.next().is_some();
        if version == "ff" || (version == "00" && more) || is_nothing(trace) || is_nothing(parent) {
            return None;
        }
        let flags = u8::from_str_radix(flags, 16).ok()? & SAMPLED;
        Some(Self(format!("00-{trace}-{parent}-{flags:02x}")))
    }

    /// The `traceparent` of a span in a recorded trace.
    pub fn of(trace: u128, span: u64) -> Self {
        Self(format!("00-{:032x}-{:016x}-01", trace.max(1), span.max(1)))
    }

    /// The header's value.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The trace's id as a number.
    pub fn trace(&self) -> u128 {
        u128::from_str_radix(self.trace_id(), 16).unwrap_or_default()
    }

    /// The sender's span id.
    pub fn parent(&self) -> u64 {
        u64::from_str_radix(&self.0[PARENT_ID], 16).unwrap_or_default()
    }

    /// True if the sender records the trace.
    pub fn is_recorded(&self) -> bool {
        self.0.ends_with('1')
    }

    /// The trace's id.
    pub fn trace_id(&self) -> &str {
        &self.0[TRACE_ID]
    }

    /// The header of a request made in this trace, by the span with this id.
    pub fn child(&self, span: u64) -> String {
        let flags = &self.0[self.0.len() - 2..];
        format!("00-{}-{:016x}-{flags}", self.trace_id(), span.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_trace_is_handed_on_with_another_span() {
        for (flags, kept) in [("00", "00"), ("01", "01"), ("03", "01")] {
            let came = format!("00-{TRACE}-00f067aa0ba902b7-{flags}");
            let trace = TraceParent::parse(&came).expect("valid");
            assert_eq!(trace.trace_id(), TRACE);
            assert_eq!(trace.trace(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
            assert_eq!(trace.parent(), 0x00f0_67aa_0ba9_02b7);
            assert_eq!(trace.is_recorded(), kept == "01");
            assert_eq!(
                trace.child(255),
                format!("00-{TRACE}-00000000000000ff-{kept}")
            );
            assert_eq!(
                trace.child(0),
                format!("00-{TRACE}-0000000000000001-{kept}")
            );
        }
        let ours = TraceParent::of(0xab, 0xcd);
        assert_eq!(TraceParent::parse(&ours.0), Some(ours.clone()));
        assert_eq!((ours.trace(), ours.parent()), (0xab, 0xcd));
        assert_eq!(TraceParent::of(0, 0), TraceParent::of(1, 1));
        let later = format!("cc-{TRACE}-00f067aa0ba902b7-01-what-the-future-brings");
        let later = TraceParent::parse(&later).expect("as far as it is known");
        assert_eq!(later.0, format!("00-{TRACE}-00f067aa0ba902b7-01"));
    }

    #[test]
    fn what_is_not_valid_is_not_there() {
        for text in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-00f067aa0ba902b7"),
            format!("00-{TRACE}-00f067aa0ba902b7-01-more"),
            format!("ff-{TRACE}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{TRACE}-00f067aa0ba902b7-0"),
            format!("00-{TRACE}-00f067aa0ba902bé-01"),
            format!(" 00-{TRACE}-00f067aa0ba902b7-01"),
        ] {
            assert_eq!(TraceParent::parse(&text), None, "{text}");
        }
    }
}
