//! The example functions that templates bring: names, descriptions in both languages, and parameters.

use serde_json::{Value, json};

use super::{
    PATH,
    answers::{self, ExampleArguments},
};
use crate::pages::lang::Lang;

/// A parameter of an example function. Its texts are in English and Indonesian.
struct ExampleParameter {
    name: &'static str,
    json_type: &'static str,
    is_required: bool,
    ask: [&'static str; 2],
}

/// A function that a template brings.
pub struct ExampleFunction {
    /// The template's name.
    pub template: &'static str,
    pub name: &'static str,
    description: [&'static str; 2],
    parameters: &'static [ExampleParameter],
    pub(super) answer: fn(&ExampleArguments) -> Value,
}

const fn text(name: &'static str, ask: [&'static str; 2]) -> ExampleParameter {
    ExampleParameter {
        name,
        json_type: "string",
        is_required: true,
        ask,
    }
}

const fn count(name: &'static str, ask: [&'static str; 2]) -> ExampleParameter {
    ExampleParameter {
        name,
        json_type: "integer",
        is_required: true,
        ask,
    }
}

const fn optional(parameter: ExampleParameter) -> ExampleParameter {
    ExampleParameter {
        is_required: false,
        ..parameter
    }
}

#[rustfmt::skip]
pub const ALL: &[ExampleFunction] = &[
    ExampleFunction {
        template: "clinic", name: "find_free_times", answer: answers::free_times,
        description: ["Finds free times for an appointment. Use it when the caller wants to see a doctor.",
                      "Mencari jam kosong untuk janji temu. Pakai kalau penelepon ingin bertemu dokter."],
        parameters: &[text("day", ["The day, such as Monday", "Harinya, misalnya Senin"]),
                      optional(text("doctor", ["The doctor, if the caller names one", "Dokternya, kalau penelepon menyebutkan"]))],
    },
    ExampleFunction {
        template: "workshop", name: "check_repair", answer: answers::repair,
        description: ["Tells how far a repair is. Use it when the caller asks about a vehicle in the workshop.",
                      "Memeriksa sejauh mana perbaikan. Pakai kalau penelepon menanyakan kendaraannya di bengkel."],
        parameters: &[text("plate", ["The number plate", "Nomor polisi kendaraan"])],
    },
    ExampleFunction {
        template: "restaurant", name: "reserve_table", answer: answers::table,
        description: ["Reserves a table. Use it once the caller has confirmed day, time, people and name.",
                      "Memesan meja. Pakai setelah penelepon memastikan hari, jam, jumlah orang, dan nama."],
        parameters: &[text("day", ["The day", "Harinya"]), text("time", ["The time", "Jamnya"]),
                      count("people", ["How many people", "Berapa orang"]), text("name", ["The name for the reservation", "Atas nama siapa"])],
    },
    ExampleFunction {
        template: "hotel", name: "find_rooms", answer: answers::rooms,
        description: ["Finds free rooms and their prices. Use it when the caller wants to stay.",
                      "Mencari kamar kosong dan harganya. Pakai kalau penelepon ingin menginap."],
        parameters: &[text("arrival", ["The day of arrival", "Hari kedatangan"]), count("nights", ["How many nights", "Berapa malam"])],
    },
    ExampleFunction {
        template: "shop", name: "check_stock", answer: answers::stock,
        description: ["Tells whether an article is in stock and what it costs.",
                      "Memeriksa apakah barang tersedia dan berapa harganya."],
        parameters: &[text("article", ["The article", "Nama barang"])],
    },
    ExampleFunction {
        template: "courier", name: "track_parcel", answer: answers::parcel,
        description: ["Finds out where a parcel is. Use it when the caller asks about a delivery.",
                      "Mencari posisi paket. Pakai kalau penelepon menanyakan kiriman."],
        parameters: &[text("number", ["The tracking number", "Nomor resi"])],
    },
    ExampleFunction {
        template: "school", name: "check_places", answer: answers::places,
        description: ["Tells how many places a class has left, and when the next open day is.",
                      "Memeriksa sisa tempat di suatu kelas dan kapan hari terbuka berikutnya."],
        parameters: &[text("class", ["The class or year", "Kelas atau tingkatnya"])],
    },
    ExampleFunction {
        template: "property", name: "find_homes", answer: answers::homes,
        description: ["Finds homes for sale in an area. Use it when the caller looks for a house.",
                      "Mencari rumah yang dijual di suatu daerah. Pakai kalau penelepon mencari rumah."],
        parameters: &[text("area", ["The part of town", "Daerahnya"]), count("bedrooms", ["How many bedrooms", "Berapa kamar tidur"])],
    },
];

/// The example function with this name.
pub fn find(name: &str) -> Option<&'static ExampleFunction> {
    ALL.iter().find(|function| function.name == name)
}

/// The functions that a template brings.
pub fn of_template(template: &str) -> Vec<&'static ExampleFunction> {
    ALL.iter()
        .filter(|function| function.template == template)
        .collect()
}

impl ExampleFunction {
    /// The address of its endpoint below the service's own base address.
    pub fn endpoint(&self, base: &str, lang: Lang) -> String {
        format!("{base}{PATH}/{}?language={}", self.name, lang.tag())
    }

    /// The fields of the function, by the API's names, and its parameters as JSON in their order.
    pub fn fields(&self, base: &str, lang: Lang) -> (Value, String) {
        let at = match lang {
            Lang::En => 0,
            Lang::Id => 1,
        };
        let fields = json!({
            "name": self.name, "description": self.description[at], "endpoint": self.endpoint(base, lang), "method": "POST",
        });
        let property = |parameter: &ExampleParameter| {
            let schema = json!({"type": parameter.json_type, "description": parameter.ask[at]});
            format!("{}:{schema}", json!(parameter.name))
        };
        let properties: Vec<String> = self.parameters.iter().map(property).collect();
        let required = self
            .parameters
            .iter()
            .filter(|parameter| parameter.is_required);
        let required: Vec<&str> = required.map(|parameter| parameter.name).collect();
        let schema = format!(
            "{{\"type\":\"object\",\"properties\":{{{}}},\"required\":{}}}",
            properties.join(","),
            json!(required)
        );
        (fields, schema)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::operations::functions::parameters;

    #[test]
    fn every_example_can_be_created_and_answers_in_both_languages() {
        for function in ALL {
            for lang in [Lang::En, Lang::Id] {
                let (fields, schema) = function.fields("https://example.com", lang);
                let schema: Value = serde_json::from_str(&schema).expect("JSON");
                assert!(parameters::parse(&schema).is_ok(), "{schema}");
                assert!(
                    fields["description"]
                        .as_str()
                        .is_some_and(|text| text.len() > 30)
                );
                let long = "x".repeat(10_000);
                let arguments = function.parameters.iter().map(|parameter| {
                    let value = match parameter.json_type {
                        "integer" => i64::MAX.into(),
                        _ => Value::from(long.as_str()),
                    };
                    (parameter.name.to_owned(), value)
                });
                for arguments in [arguments.collect(), Map::new()] {
                    let arguments = ExampleArguments::new(arguments, lang);
                    let answer = (function.answer)(&arguments);
                    assert_eq!(answer, (function.answer)(&arguments));
                    let size = answer.to_string().len();
                    assert!((20..1_500).contains(&size), "{}: {answer}", function.name);
                }
            }
        }
    }

    #[test]
    fn the_answer_is_in_the_language_of_the_request() {
        let parcel = find("track_parcel").expect("an example");
        let answer = |lang| (parcel.answer)(&ExampleArguments::new(Map::new(), lang));
        assert_ne!(answer(Lang::En)["expected"], answer(Lang::Id)["expected"]);
    }
}
