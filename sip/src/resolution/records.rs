//! DNS messages (RFC 1035): a question, and the SRV (RFC 2782) and NAPTR (RFC 3403) records of its answer. Pure.

const HEADER_BYTES: usize = 12;
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;
/// Records that are read.
const RECORDS_MAX: usize = 64;
/// Compression pointers that are followed in one name.
const POINTERS_MAX: usize = 16;
/// The class of the Internet.
const INTERNET: u16 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    Srv = 33,
    Naptr = 35,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRecord {
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    pub target: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointerRecord {
    pub order: u16,
    pub preference: u16,
    pub flags: String,
    pub service: String,
    pub replacement: String,
}

/// The records of an answer, of the kind that was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DnsRecords {
    pub services: Vec<ServiceRecord>,
    pub pointers: Vec<PointerRecord>,
}

/// Why an answer has no records to use.
#[derive(Debug, PartialEq, Eq)]
pub enum DnsFault {
    /// It is no answer to this question, or malformed.
    Unreadable,
    /// It has to be asked for over TCP.
    Truncated,
    /// The server failed.
    Failed,
}

/// A recursive question; `None` if the name is none.
pub fn question(id: u16, name: &str, kind: RecordKind) -> Option<Vec<u8>> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut bytes = id.to_be_bytes().to_vec();
    // Recursion desired; one question.
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok()?;
        if label.is_empty() || label.len() > LABEL_BYTES_MAX {
            return None;
        }
        bytes.push(length);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend((kind as u16).to_be_bytes());
    bytes.extend(INTERNET.to_be_bytes());
    Some(bytes)
}

/// Reads the answer to this question. A name without such records has none.
pub fn answer(message: &[u8], question: &[u8]) -> Result<DnsRecords, DnsFault> {
    let mut reader = MessageReader { message, at: 0 };
    records(&mut reader, question)?.ok_or(DnsFault::Unreadable)
}

/// The records; `Ok(None)` if the message is malformed.
fn records(
    reader: &mut MessageReader<'_>,
    question: &[u8],
) -> Result<Option<DnsRecords>, DnsFault> {
    let Some(count) = head(reader, question)? else {
        return Ok(None);
    };
    let mut found = DnsRecords::default();
    for _ in 0..usize::from(count).min(RECORDS_MAX) {
        if reader.record(&mut found).is_none() {
            return Ok(None);
        }
    }
    Ok(Some(found))
}

/// Number of the answer's records.
fn head(reader: &mut MessageReader<'_>, question: &[u8]) -> Result<Option<u16>, DnsFault> {
    let asked = &question[HEADER_BYTES..];
    let end = HEADER_BYTES + asked.len();
    let echoed = reader.message.get(HEADER_BYTES..end);
    let is_ours = reader.message.get(..2) == question.get(..2)
        && echoed.is_some_and(|echoed| echoed.eq_ignore_ascii_case(asked));
    let (true, Some(&[flags, code])) = (is_ours, reader.message.get(2..4)) else {
        return Ok(None);
    };
    if flags & 0x80 == 0 {
        return Ok(None);
    }
    if flags & 0x02 != 0 {
        return Err(DnsFault::Truncated);
    }
    reader.at = 6;
    let count = reader.number();
    reader.at = end;
    match code & 0x0f {
        0 => Ok(count),
        // There is no such name.
        3 => Ok(Some(0)),
        _ => Err(DnsFault::Failed),
    }
}

struct MessageReader<'a> {
    message: &'a [u8],
    at: usize,
}

impl MessageReader<'_> {
    fn bytes(&mut self, length: usize) -> Option<&[u8]> {
        let bytes = self.message.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<usize> {
        self.bytes(1).map(|bytes| usize::from(bytes[0]))
    }

    fn number(&mut self) -> Option<u16> {
        self.bytes(2)
            .map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A character-string.
    fn text(&mut self) -> Option<String> {
        let length = self.byte()?;
        let bytes = self.bytes(length)?;
        String::from_utf8(bytes.to_vec()).ok()
    }

    /// A name, which may end in that of another place.
    fn name(&mut self) -> Option<String> {
        let (mut name, mut pointers, mut behind) = (String::new(), 0, None);
        loop {
            let length = self.byte()?;
            if length & 0xc0 == 0xc0 {
                let place = (length & 0x3f) << 8 | self.byte()?;
                behind.get_or_insert(self.at);
                pointers += 1;
                if pointers > POINTERS_MAX {
                    return None;
                }
                self.at = place;
                continue;
            }
            if length == 0 {
                break;
            }
            if length > LABEL_BYTES_MAX || name.len() + length > NAME_BYTES_MAX {
                return None;
            }
            if !name.is_empty() {
                name.push('.');
            }
            let label = self.bytes(length)?;
            name.push_str(std::str::from_utf8(label).ok()?);
        }
        self.at = behind.unwrap_or(self.at);
        Some(name)
    }

    /// Reads a record, and keeps it if it is one of services.
    fn record(&mut self, found: &mut DnsRecords) -> Option<()> {
        self.name()?;
        let (kind, class) = (self.number()?, self.number()?);
        let _lifetime = self.bytes(4)?;
        let length = usize::from(self.number()?);
        let end = self.at.checked_add(length)?;
        if class == INTERNET && kind == RecordKind::Srv as u16 {
            found.services.push(ServiceRecord {
                priority: self.number()?,
                weight: self.number()?,
                port: self.number()?,
                target: self.name()?,
            });
        } else if class == INTERNET && kind == RecordKind::Naptr as u16 {
            let (order, preference) = (self.number()?, self.number()?);
            let (flags, service) = (self.text()?, self.text()?);
            // The regular expression is for other applications.
            self.text()?;
            found.pointers.push(PointerRecord {
                order,
                preference,
                flags,
                service,
                replacement: self.name()?,
            });
        }
        self.at = end;
        (end <= self.message.len()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAME: &str = "_sip._udp.example.com";

    /// An answer with one SRV record, whose names are compressed.
    fn answered(flags: [u8; 2]) -> (Vec<u8>, Vec<u8>) {
        let question = question(7, NAME, RecordKind::Srv).expect("a name");
        let mut message = question.clone();
        message[2..4].copy_from_slice(&flags);
        message[7] = 1;
        message.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60, 0, 13]);
        message.extend([0, 10, 0, 5, 0x13, 0xc4]);
        // `sbc` and the name behind `_sip._udp`.
        message.extend([4, b's', b'b', b'c', b'1', 0xc0, 22]);
        (message, question)
    }

    #[test]
    fn an_answer_is_read_if_it_is_to_the_question() {
        let (message, question) = answered([0x81, 0x80]);
        let expected = ServiceRecord {
            priority: 10,
            weight: 5,
            port: 5060,
            target: "sbc1.example.com".to_owned(),
        };
        let read = answer(&message, &question).expect("an answer");
        assert_eq!(read.services, [expected]);
        for (flags, fault) in [
            ([0x01, 0x80], DnsFault::Unreadable),
            ([0x83, 0x80], DnsFault::Truncated),
            ([0x81, 0x82], DnsFault::Failed),
        ] {
            let (message, question) = answered(flags);
            assert_eq!(answer(&message, &question), Err(fault));
        }
        let (none, question) = answered([0x81, 0x83]);
        assert_eq!(answer(&none, &question), Ok(DnsRecords::default()));
        let (mut other, question) = answered([0x81, 0x80]);
        other[1] = 8;
        assert_eq!(answer(&other, &question), Err(DnsFault::Unreadable));
        let cut = &message[..message.len() - 1];
        assert_eq!(answer(cut, &question), Err(DnsFault::Unreadable));
    }

    #[test]
    fn names_that_lead_in_circles_are_refused() {
        let (mut message, question) = answered([0x81, 0x80]);
        let end = message.len();
        message[end - 2..].copy_from_slice(&[0xc0, u8::try_from(end - 2).expect("a short one")]);
        assert_eq!(answer(&message, &question), Err(DnsFault::Unreadable));
        for name in ["", ".", "a..b", &"a".repeat(64), &"a.".repeat(128)] {
            assert_eq!(super::question(1, name, RecordKind::Srv), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            tail in proptest::collection::vec(any::<u8>(), 0..200),
            at in 0_usize..60,
            byte in any::<u8>(),
        ) {
            let (mut message, question) = answered([0x81, 0x80]);
            let at = at % message.len();
            message[at] = byte;
            message.extend(tail);
            let _ = answer(&message, &question);
        }
    }
}
