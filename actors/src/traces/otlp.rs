//! Spans in OTLP (<https://opentelemetry.io/docs/specs/otlp/>): the fields that we use of `trace_service.proto` and
//! `trace.proto`, in protobuf's wire format. Pure.
//!
//! Written by hand, because it needs only three kinds of field. opentelemetry-otlp 0.33 brings 20 more crates, hides
//! how many spans it dropped or the collector refused, and retries only within one exchange's time. The output was
//! compared with that of OpenTelemetry's own library.

use super::span::{Attribute, FinishedSpan};

/// Wire type of a number of variable length.
const VARINT: u64 = 0;
/// Wire type of eight bytes.
const FIXED: u64 = 1;
/// Wire type of texts and messages: a length and that many bytes.
const BYTES: u64 = 2;
/// `Status.code` of a failed span.
const STATUS_ERROR: u64 = 2;

/// Writes a message field by field.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push((value & 0x7f) as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | VARINT);
        self.varint(value);
    }

    fn fixed(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | FIXED);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | BYTES);
        self.varint(u64::try_from(value.len()).unwrap_or(u64::MAX));
        self.0.extend_from_slice(value);
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Self)) {
        let mut message = Self::default();
        fill(&mut message);
        self.bytes(field, &message.0);
    }

    fn attribute(&mut self, field: u64, name: &str, value: &Attribute) {
        self.message(field, |pair| {
            pair.bytes(1, name.as_bytes());
            pair.message(2, |any| match value {
                Attribute::Text(text) => any.bytes(1, text.as_bytes()),
                Attribute::Number(number) => any.number(3, number.cast_unsigned()),
            });
        });
    }

    fn span(&mut self, span: &FinishedSpan) {
        self.bytes(1, &span.trace.to_be_bytes());
        self.bytes(2, &span.span.to_be_bytes());
        if let Some(parent) = span.parent {
            self.bytes(4, &parent.to_be_bytes());
        }
        self.bytes(5, span.name.as_bytes());
        self.number(6, span.kind as u64);
        self.fixed(7, span.began_ns);
        self.fixed(8, span.ended_ns);
        for (name, value) in &span.attributes {
            self.attribute(9, name, value);
        }
        if let Some(error) = &span.error {
            self.message(15, |status| {
                status.bytes(2, error.as_bytes());
                status.number(3, STATUS_ERROR);
            });
        }
    }
}

/// The sender of the spans.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) node: String,
}

/// An encoded `ExportTraceServiceRequest`.
pub(super) fn request(resource: &Resource, spans: &[FinishedSpan]) -> Vec<u8> {
    let about = [
        ("service.name", "dikala"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", resource.node.as_str()),
    ];
    let mut request = Writer::default();
    request.message(1, |of_resource| {
        of_resource.message(1, |resource| {
            for (name, value) in about {
                resource.attribute(1, name, &Attribute::Text(value.to_owned()));
            }
        });
        of_resource.message(2, |of_scope| {
            of_scope.message(1, |scope| scope.bytes(1, b"dikala"));
            for span in spans {
                of_scope.message(2, |message| message.span(span));
            }
        });
    });
    request.0
}

/// The number of rejected spans in an `ExportTraceServiceResponse`; 0 if it cannot be read.
pub(super) fn rejected(response: &[u8]) -> u64 {
    let partial = field(response, 1).and_then(Field::bytes);
    let rejected = partial.and_then(|partial| field(partial, 1));
    rejected.and_then(Field::number).unwrap_or(0)
}

/// The value of a field.
#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) => None,
        }
    }

    fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Bytes(_) => None,
        }
    }
}

/// The first field with this number.
fn field(mut message: &[u8], wanted: u64) -> Option<Field<'_>> {
    loop {
        let key = varint(&mut message)?;
        let value = match key & 7 {
            VARINT => Field::Number(varint(&mut message)?),
            FIXED => Field::Bytes(take(&mut message, 8)?),
            BYTES => {
                let length = varint(&mut message)?;
                Field::Bytes(take(&mut message, usize::try_from(length).ok()?)?)
            }
            5 => Field::Bytes(take(&mut message, 4)?),
            _ => return None,
        };
        if key >> 3 == wanted {
            return Some(value);
        }
    }
}

fn take<'a>(message: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = message.split_at_checked(count)?;
    *message = rest;
    Some(taken)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *take(message, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::span::SpanKind;

    fn span(name: &'static str, kind: SpanKind) -> FinishedSpan {
        FinishedSpan {
            trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            span: 0x00f0_67aa_0ba9_02b7,
            parent: None,
            kind,
            name: name.into(),
            began_ns: 1_768_447_800_000_000_000,
            ended_ns: 1_768_447_860_500_000_001,
            attributes: Vec::new(),
            error: None,
        }
    }

    /// The output of OpenTelemetry's Python library for the same spans (`opentelemetry-proto`, deterministic).
    #[test]
    fn it_is_what_the_library_of_the_project_writes() {
        const EXPECTED: &str = "0ac1020a550a180a0c736572766963652e6e616d6512080a0664696b616c610a1a0a0f736572766963652e76657273696f6e12070a05\
            302e312e300a1d0a13736572766963652e696e7374616e63652e696412060a046d61696e12e7010a080a0664696b616c611288010a10\
            4bf92f3577b34da6a3ce929d0e0e4736120800f067aa0ba902b72a0463616c6c3001390030d28ae7c98a184101ede6a0f5c98a184a1a\
            0a0e64696b616c612e63616c6c2e696412080a0663616c6c5f314a1f0a1864696b616c612e63616c6c2e74616c6b5f7365636f6e6473\
            120318ac024a130a046c657373120b18ffffffffffffffffff0112500a104bf92f3577b34da6a3ce929d0e0e47361208000000000000\
            0001220800f067aa0ba902b72a07776562686f6f6b30033901000000000000004102000000000000007a0b120774696d656f75741802";
        let call = FinishedSpan {
            attributes: vec![
                ("dikala.call.id", Attribute::Text("call_1".to_owned())),
                ("dikala.call.talk_seconds", Attribute::Number(300)),
                ("less", Attribute::Number(-1)),
            ],
            ..span("call", SpanKind::Internal)
        };
        let webhook = FinishedSpan {
            span: 1,
            parent: Some(call.span),
            began_ns: 1,
            ended_ns: 2,
            error: Some("timeout".into()),
            ..span("webhook", SpanKind::Client)
        };
        let resource = Resource {
            node: "main".to_owned(),
        };
        let written = hex::encode(request(&resource, &[call, webhook]));
        let version = hex::encode(env!("CARGO_PKG_VERSION"));
        assert_eq!(written, EXPECTED.replace("302e312e30", &version));
    }

    #[test]
    fn an_answer_says_how_many_were_not_taken() {
        for (answer, refused) in [
            ("", 0),
            ("0a0708ac0212026e6f", 300),
            ("0a0412026e6f", 0),
            // An unknown field comes first.
            ("10050a0308ac02", 300),
            ("0aff", 0),
            ("0a0908ffffffffffffffffff", 0),
            ("7b7d", 0),
        ] {
            let answer = hex::decode(answer).expect("hexadecimal");
            assert_eq!(rejected(&answer), refused, "{answer:?}");
        }
    }
}
