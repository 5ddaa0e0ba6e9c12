//! The answers of example functions, made from their arguments. Pure.

use serde_json::{Map, Value, json};

use crate::pages::lang::Lang;

/// The longest text that is repeated in an answer, in characters.
const TEXT_CHARS_MAX: usize = 80;
/// The largest number that is repeated in an answer.
const NUMBER_MAX: i64 = 100;
/// The largest group for which a table is reserved.
const PEOPLE_MAX: i64 = 12;

/// The arguments of a request, with the language of the answer.
#[derive(Debug)]
pub struct ExampleArguments {
    arguments: Map<String, Value>,
    lang: Lang,
    /// The same for the same arguments.
    seed: u64,
}

impl ExampleArguments {
    pub fn new(arguments: Map<String, Value>, lang: Lang) -> Self {
        // FNV-1a.
        let mut seed: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in Value::from(arguments.clone()).to_string().bytes() {
            seed = (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self {
            arguments,
            lang,
            seed,
        }
    }

    /// A text, shortened; empty if it is missing.
    fn text(&self, name: &str) -> String {
        let text = self.arguments.get(name).and_then(Value::as_str);
        let text = text.unwrap_or_default().trim();
        text.chars().take(TEXT_CHARS_MAX).collect()
    }

    fn number(&self, name: &str) -> i64 {
        let number = self.arguments.get(name).and_then(Value::as_i64);
        number.unwrap_or(1).clamp(1, NUMBER_MAX)
    }

    /// A whole number from `least` up to and including `most`.
    fn between(&self, least: i64, most: i64) -> i64 {
        let span = u64::try_from(most - least + 1).unwrap_or(1);
        least + i64::try_from(self.seed % span).unwrap_or(0)
    }

    /// One of some English and Indonesian texts.
    fn one_of(&self, texts: &[[&'static str; 2]]) -> &'static str {
        let count = u64::try_from(texts.len()).unwrap_or(1).max(1);
        let at = usize::try_from(self.seed % count).unwrap_or(0);
        texts
            .get(at)
            .map_or("", |[english, indonesian]| self.say(english, indonesian))
    }

    const fn say(&self, english: &'static str, indonesian: &'static str) -> &'static str {
        match self.lang {
            Lang::En => english,
            Lang::Id => indonesian,
        }
    }
}

pub fn free_times(arguments: &ExampleArguments) -> Value {
    let all = [
        "08:30", "09:15", "10:00", "11:30", "13:45", "15:00", "16:30",
    ];
    let first = usize::try_from(arguments.between(0, 3)).unwrap_or(0);
    let doctor = match arguments.text("doctor") {
        doctor if doctor.is_empty() => "dr. Sari".to_owned(),
        doctor => doctor,
    };
    json!({"day": arguments.text("day"), "doctor": doctor, "freeTimes": [all[first], all[first + 1], all[first + 3]]})
}

pub fn repair(arguments: &ExampleArguments) -> Value {
    let status = arguments.one_of(&[
        ["being repaired", "sedang dikerjakan"],
        ["waiting for a spare part", "menunggu suku cadang"],
        ["ready to be collected", "siap diambil"],
    ]);
    let ready = arguments.say("tomorrow at 16:00", "besok pukul 16.00");
    json!({"plate": arguments.text("plate"), "status": status, "readyBy": ready,
           "price": arguments.between(3, 18) * 50_000, "currency": "IDR"})
}

pub fn table(arguments: &ExampleArguments) -> Value {
    let people = arguments.number("people");
    if people > PEOPLE_MAX {
        let reason = arguments.say(
            "Groups of more than 12 are arranged by the restaurant itself.",
            "Rombongan lebih dari 12 orang diatur langsung oleh restoran.",
        );
        return json!({"reserved": false, "reason": reason});
    }
    json!({"reserved": true, "day": arguments.text("day"), "time": arguments.text("time"), "people": people,
           "name": arguments.text("name"), "reservation": format!("R-{}", arguments.between(100, 999))})
}

pub fn rooms(arguments: &ExampleArguments) -> Value {
    let nights = arguments.number("nights");
    let room = |name: &str, price: i64, left: i64| json!({"room": name, "pricePerNight": price, "total": price * nights, "left": left});
    let standard = arguments.say("Standard double", "Standar, ranjang besar");
    let deluxe = arguments.say("Deluxe with balcony", "Deluxe dengan balkon");
    let left = arguments.between(1, 4);
    json!({"arrival": arguments.text("arrival"), "nights": nights, "currency": "IDR",
           "rooms": [room(standard, 450_000, left), room(deluxe, 725_000, 1)]})
}

pub fn stock(arguments: &ExampleArguments) -> Value {
    let pieces = arguments.between(0, 14);
    json!({"article": arguments.text("article"), "inStock": pieces, "price": arguments.between(3, 40) * 5_000,
           "currency": "IDR"})
}

pub fn parcel(arguments: &ExampleArguments) -> Value {
    let status = arguments.one_of(&[
        ["out for delivery", "sedang diantar"],
        ["in the sorting centre", "di pusat sortir"],
        ["on the way to the branch", "dalam perjalanan ke cabang"],
    ]);
    let expected = arguments.say("today before 17:00", "hari ini sebelum pukul 17.00");
    let place = arguments.one_of(&[
        ["Bandung", "Bandung"],
        ["Surabaya", "Surabaya"],
        ["Semarang", "Semarang"],
    ]);
    json!({"number": arguments.text("number"), "status": status, "place": place, "expected": expected})
}

pub fn places(arguments: &ExampleArguments) -> Value {
    let visit = arguments.say("Saturday at 9:00", "Sabtu pukul 09.00");
    json!({"class": arguments.text("class"), "freePlaces": arguments.between(0, 6), "nextOpenDay": visit})
}

pub fn homes(arguments: &ExampleArguments) -> Value {
    let bedrooms = arguments.number("bedrooms").min(6);
    let home = |street: &str, millions: i64| json!({"address": street, "area": arguments.text("area"), "bedrooms": bedrooms, "price": millions * 1_000_000});
    let first = arguments.between(6, 12) * 100;
    json!({"currency": "IDR", "homes": [home("Jalan Melati 12", first), home("Jalan Kenanga 5", first + 175)]})
}
