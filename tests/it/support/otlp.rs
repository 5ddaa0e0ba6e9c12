//! A collector of OTLP over HTTP. It decodes spans by the field numbers of `trace_service.proto` and `trace.proto`.

use std::collections::BTreeMap;

use dikala_testkit::{TenantServer, eventually};

/// Path of a collector for traces.
pub const PATH: &str = "/v1/traces";

/// A received span; ids in hexadecimal.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectedSpan {
    pub trace: String,
    pub id: String,
    /// Empty if there is none.
    pub parent: String,
    pub name: String,
    /// `SpanKind`: 1 internal, 2 server, 3 client.
    pub kind: u64,
    pub began_ns: u64,
    pub ended_ns: u64,
    /// Numbers as text.
    pub attributes: BTreeMap<String, String>,
    /// The error, if it failed.
    pub error: Option<String>,
    /// `service.instance.id` of the sender.
    pub node: String,
}

impl CollectedSpan {
    #[track_caller]
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

/// All spans received so far.
pub fn spans(collector: &TenantServer) -> Vec<CollectedSpan> {
    let requests = collector.received(PATH);
    requests
        .iter()
        .flat_map(|request| {
            assert_eq!(request.method, "POST");
            assert_eq!(request.header("content-type"), "application/x-protobuf");
            of_request(&request.body)
        })
        .collect()
}

/// Waits until the spans are as wanted.
pub async fn wait_for_spans(
    collector: &TenantServer,
    what: &str,
    wanted: impl Fn(&[CollectedSpan]) -> bool,
) -> Vec<CollectedSpan> {
    eventually(what, async || {
        let spans = spans(collector);
        wanted(&spans).then_some(spans)
    })
    .await
}

/// A protobuf message: its fields in order.
struct Message(Vec<(u64, Field)>);

enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Message {
    fn read(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let field = match key & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => {
                    let fixed = take(&mut bytes, 8).try_into().unwrap();
                    Field::Number(u64::from_le_bytes(fixed))
                }
                2 => {
                    let length = varint(&mut bytes);
                    Field::Bytes(take(&mut bytes, length.try_into().unwrap()).to_vec())
                }
                other => panic!("a field of wire type {other}"),
            };
            fields.push((key >> 3, field));
        }
        Self(fields)
    }

    fn all(&self, field: u64) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter_map(move |(at, value)| match value {
            Field::Bytes(bytes) if *at == field => Some(&**bytes),
            _ => None,
        })
    }

    fn messages(&self, field: u64) -> impl Iterator<Item = Message> {
        self.all(field).map(Message::read)
    }

    fn bytes(&self, field: u64) -> &[u8] {
        self.all(field).next().unwrap_or_default()
    }

    fn text(&self, field: u64) -> String {
        String::from_utf8(self.bytes(field).to_vec()).unwrap()
    }

    fn number(&self, field: u64) -> Option<u64> {
        self.0.iter().find_map(|(at, value)| match value {
            Field::Number(number) if *at == field => Some(*number),
            _ => None,
        })
    }

    /// `repeated KeyValue`
    fn attributes(&self, field: u64) -> BTreeMap<String, String> {
        let pairs = self.messages(field).map(|pair| {
            let value = Message::read(pair.bytes(2));
            // AnyValue: string_value 1, int_value 3.
            let text = match value.number(3) {
                Some(number) => number.cast_signed().to_string(),
                None => value.text(1),
            };
            (pair.text(1), text)
        });
        pairs.collect()
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number of more than ten bytes");
}

fn of_request(body: &[u8]) -> Vec<CollectedSpan> {
    let mut spans = Vec::new();
    for of_resource in Message::read(body).messages(1) {
        let resource = Message::read(of_resource.bytes(1)).attributes(1);
        assert_eq!(resource["service.name"], "dikala");
        for of_scope in of_resource.messages(2) {
            let node = &resource["service.instance.id"];
            spans.extend(of_scope.messages(2).map(|span| read(&span, node)));
        }
    }
    spans
}

fn read(span: &Message, node: &str) -> CollectedSpan {
    let id = |field, bytes: usize| {
        let id = span.bytes(field);
        assert!(id.is_empty() || id.len() == bytes, "{id:?}");
        id.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let status = Message::read(span.bytes(15));
    let read = CollectedSpan {
        trace: id(1, 16),
        id: id(2, 8),
        parent: id(4, 8),
        name: span.text(5),
        kind: span.number(6).unwrap(),
        began_ns: span.number(7).unwrap(),
        ended_ns: span.number(8).unwrap(),
        attributes: span.attributes(9),
        // STATUS_CODE_ERROR
        error: (status.number(3) == Some(2)).then(|| status.text(2)),
        node: node.to_owned(),
    };
    assert!(!read.trace.is_empty() && !read.id.is_empty(), "{read:?}");
    assert!(read.began_ns <= read.ended_ns, "{read:?}");
    read
}
