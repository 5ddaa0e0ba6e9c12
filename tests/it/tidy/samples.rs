//! Tests of the rules: violations in small made-up sources are found, and correct code passes.

use rstest::rstest;

use super::{
    imports::circles,
    language::{long_sentences, types_declared_twice, unclear_comments, unknown_modules},
    rules::{
        FILE_LINES_MAX, FUNCTION_LINES_MAX, compared_secrets, impure, long_files, long_functions,
        own_clocks, reads_of_everybody, without_a_purpose,
    },
    source::{File, blank},
};

fn files(sources: &[(&str, &str)]) -> Vec<File> {
    sources
        .iter()
        .map(|(path, text)| File::new(path, text))
        .collect()
}

/// The modules of each cycle, by folder.
fn rooms(sources: &[(&str, &str)]) -> Vec<(String, String)> {
    let found = circles(&files(sources), "src/lib.rs");
    found
        .into_iter()
        .map(|circle| (circle.at, circle.rooms.join(" ")))
        .collect()
}

const ROOT: (&str, &str) = ("src/lib.rs", "mod a;\nmod b;\nmod c;");

#[rstest]
#[case::use_of_each_other("use crate::b::B;", "use crate::a::A;", "")]
#[case::over_a_third("use crate::b::B;", "use crate::c::C;", "use crate::a;")]
#[case::in_a_group("use crate::{c::C, b::{self, B}};", "use super::a::A;", "")]
#[case::without_use("fn f() { crate::b::g() }", "fn g() { super::a::f() }", "")]
#[case::in_a_type(
    "pub type A = Vec<crate::b::B>;",
    "pub struct B(Option<crate::a::A>);",
    ""
)]
#[case::handed_on("use crate::c::B;", "use crate::a::A;", "pub use crate::b::B;")]
#[case::all_of_it("use crate::c::*;", "use crate::a::A;", "pub use crate::b::*;")]
#[case::under_another_name("use crate::b as other;", "use crate::a::A as Other;", "")]
fn a_circle_is_found(#[case] a: &str, #[case] b: &str, #[case] c: &str) {
    let found = rooms(&[ROOT, ("src/a.rs", a), ("src/b.rs", b), ("src/c.rs", c)]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "src");
    assert!(found[0].1.starts_with("a b"), "{found:?}");
}

#[rstest]
#[case::one_way("use crate::b::B;", "use crate::c::C;")]
#[case::for_tests_only(
    "use crate::b::B;",
    "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}"
)]
#[case::told_of_only(
    "use crate::b::B;",
    "// like crate::a::A\nconst TEXT: &str = \"crate::a::A\";"
)]
#[case::visible_there("use crate::b::B;", "pub(in crate::a) struct B;")]
#[case::of_another_crate("use crate::b::B;", "use other::a::A;")]
fn what_runs_one_way_is_no_circle(#[case] a: &str, #[case] b: &str) {
    assert_eq!(
        rooms(&[ROOT, ("src/a.rs", a), ("src/b.rs", b), ("src/c.rs", "")]),
        []
    );
}

#[test]
fn a_circle_inside_of_a_folder_is_found_and_its_face_is_none() {
    let found = rooms(&[
        ("src/lib.rs", "pub mod a;"),
        (
            "src/a/mod.rs",
            "mod x;\nmod y;\npub use x::X;\npub struct Face;",
        ),
        ("src/a/x.rs", "use super::{Face, y::Y};"),
        ("src/a/y.rs", "use super::X;"),
    ]);
    assert_eq!(found, [("src/a".to_owned(), "x y".to_owned())]);
}

#[test]
fn a_file_without_a_purpose_is_found() {
    let files = files(&[
        ("src/a.rs", "//! What it is.\n"),
        ("src/b.rs", "// No.\nuse x;\n"),
    ]);
    assert_eq!(without_a_purpose(&files), ["src/b.rs"]);
}

#[test]
fn a_long_file_is_found_and_a_known_one_only_shrinks() {
    let lines = |count: usize| "x\n".repeat(count);
    let long = lines(FILE_LINES_MAX + 1);
    let files = files(&[
        ("src/a.rs", &long),
        ("src/b.rs", &lines(FILE_LINES_MAX)),
        ("src/a/tests.rs", &long),
    ]);
    assert_eq!(long_files(&files, &[]).len(), 1);
    assert_eq!(
        long_files(&files, &[("src/a.rs", FILE_LINES_MAX + 1)]),
        [""; 0]
    );
    let grown = long_files(&files, &[("src/a.rs", FILE_LINES_MAX)]);
    assert!(
        grown[0].contains("src/a.rs has 501 lines of at most 500"),
        "{grown:?}"
    );
    let settled = long_files(&files, &[("src/a.rs", 501), ("src/b.rs", 501)]);
    assert!(settled[0].contains("take it off the list"), "{settled:?}");
}

#[test]
fn a_long_function_is_found_outside_of_tests() {
    let function = |lines: usize| {
        format!(
            "fn f(of: [u8; 2]) -> u8 {{\n{}}}\n",
            "    g(\"}\");\n".repeat(lines - 2)
        )
    };
    let (fits, long) = (
        function(FUNCTION_LINES_MAX),
        function(FUNCTION_LINES_MAX + 1),
    );
    let tested = format!("#[cfg(test)]\nmod tests {{\n{long}}}\n");
    let files = files(&[
        ("src/a.rs", &fits),
        ("src/b.rs", &long),
        ("src/c.rs", &tested),
    ]);
    assert_eq!(
        long_functions(&files, &[]),
        ["src/b.rs::f has 71 lines of at most 70"]
    );
    assert_eq!(long_functions(&files, &[("src/b.rs::f", 71)]), [""; 0]);
}

#[rstest]
#[case("async fn decide() {}")]
#[case("fn decide() { let now = Instant::now(); }")]
#[case("use dikala_actors::runtime::clock::SharedClock;")]
#[case("use sea_orm::EntityTrait;")]
#[case("use dikala_entities::Store;")]
#[case("fn decide() { tokio::spawn(work); }")]
fn a_decision_that_is_not_pure_is_found(#[case] text: &str) {
    let of = |text: &str| impure(&files(&[("src/plan/decide.rs", text)]), &["src/plan"]);
    assert_eq!(of(text).len(), 1, "{:?}", of(text));
    assert_eq!(of("/// No async here.\nfn decide(now: Millis) {}"), [""; 0]);
    assert_eq!(
        of(&format!("#[cfg(test)]\nmod tests {{ {text} }}")),
        [""; 0]
    );
    assert_eq!(
        impure(&files(&[("src/a.rs", "")]), &["src/plan"]),
        ["src/plan is not there"]
    );
}

#[rstest]
#[case::by_id("call::Entity::find_by_id(id).one(db)")]
#[case::all("dikala_entities::call::Entity::find()")]
#[case::in_several_lines("call::Entity\n    ::find()")]
#[case::under_another_name("row::Entity::find()")]
#[case::imported("Entity::find()")]
#[case::renamed("use dikala_entities::call::Entity as Calls;")]
#[case::as_a_subquery("Query::select().from(call::Entity)")]
fn a_read_that_does_not_begin_with_the_tenant_is_found(#[case] text: &str) {
    let at = |path: &str| reads_of_everybody(&files(&[TENANTS_TABLE, NOBODYS_TABLE, (path, text)]));
    assert_eq!(at("src/api/calls.rs").len(), 1);
    assert_eq!(at("src/dashboard/calls.rs").len(), 1);
    assert_eq!(at("src/maintenance/calls.rs"), [""; 0]);
    assert_eq!(at("src/api/tests/calls.rs"), [""; 0]);
}

#[rstest]
#[case("call::Entity::of(tenant).filter(newer)")]
#[case("call::Entity::one_of(tenant, id)")]
#[case("bridge::Entity::find()")]
#[case("calls::find(db, tenant, id)")]
#[case("fn rows() -> Select<call::Entity> {}")]
#[case("// call::Entity::find()")]
fn a_read_that_begins_with_the_tenant_is_right(#[case] text: &str) {
    let files = files(&[TENANTS_TABLE, NOBODYS_TABLE, ("src/api/calls.rs", text)]);
    assert_eq!(reads_of_everybody(&files), [""; 0]);
}

const TENANTS_TABLE: (&str, &str) = (
    "entities/src/tables/call.rs",
    "pub struct Model { pub tenant_id: TenantId }",
);
const NOBODYS_TABLE: (&str, &str) = (
    "entities/src/tables/bridge.rs",
    "pub struct Model { pub id: BridgeId }",
);

#[rstest]
#[case("let now = SystemTime::now();")]
#[case("let now = chrono::Utc::now();")]
#[case("let now = OffsetDateTime::now_utc();")]
fn a_clock_of_its_own_is_found(#[case] text: &str) {
    let at = |path: &str| own_clocks(&files(&[(path, text)]));
    assert_eq!(at("src/a.rs"), ["src/a.rs:1 asks for the date"]);
    assert_eq!(at("actors/src/runtime/clock/mod.rs"), [""; 0]);
    assert_eq!(at("tests/it/a.rs"), [""; 0]);
}

#[rstest]
#[case("given == token.expose()", true)]
#[case("token.expose() != given", true)]
#[case("given.ct_eq(token.expose())", false)]
#[case("let given = token.expose();", false)]
#[case("if length == 3 {\ntoken.expose()", false)]
fn a_secret_that_is_compared_is_found(#[case] text: &str, #[case] is_wrong: bool) {
    let found = compared_secrets(&files(&[("src/a.rs", text)]));
    assert_eq!(!found.is_empty(), is_wrong, "{found:?}");
}

#[rstest]
#[case("a // {\nb", "a b")]
#[case("a /* { /* } */ */ b", "a b")]
#[case(r#"a "}\"{" b"#, "a b")]
#[case(r##"a r#"" }"# b"##, "a b")]
#[case("a '{' '\\'' b", "a b")]
#[case("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)")]
#[case("\"\u{e9}\" b", "b")]
fn what_is_no_code_is_blank(#[case] text: &str, #[case] expected: &str) {
    let left = blank(text);
    assert_eq!(
        left.split_whitespace().collect::<Vec<_>>().join(" "),
        expected
    );
    assert_eq!(
        (left.len(), left.lines().count()),
        (text.len(), text.lines().count())
    );
}

#[rstest]
#[case::in_two_files("pub struct Call;", "pub enum Call {}", 1)]
#[case::for_the_crate("pub(crate) struct Call;", "pub(super) trait Call {}", 1)]
#[case::private("struct Call;", "pub struct Call;", 0)]
#[case::given_by_the_library("pub struct Model;", "pub struct Model;", 0)]
#[case::for_tests("#[cfg(test)]\npub struct Call;", "pub struct Call;", 0)]
#[case::said_only("// pub struct Call;", "pub struct Call;", 0)]
fn a_type_has_one_place(#[case] a: &str, #[case] b: &str, #[case] found: usize) {
    let files = files(&[("src/a.rs", a), ("src/b.rs", b)]);
    assert_eq!(types_declared_twice(&files).len(), found);
}

#[rstest]
#[case::headless("/// What it costs.", 1)]
#[case::headless_inside("fn f() {\n    // Whether it costs.\n}", 1)]
#[case::a_program_as_a_person("/// A permit for who waits.", 1)]
#[case::with_a_subject("/// The price.", 0)]
#[case::later_in_the_comment("/// The price of a call.\n/// What is free is not listed.", 0)]
#[case::whatever("/// Whatever happens, it ends.", 0)]
#[case::no_comment("let text = \"What it costs\";", 0)]
fn a_comment_needs_a_subject(#[case] text: &str, #[case] found: usize) {
    assert_eq!(unclear_comments(&files(&[("src/a.rs", text)])).len(), found);
}

#[rstest]
#[case::too_long(&"word ".repeat(31), 1)]
#[case::in_a_list(&format!("- {}", "word ".repeat(31)), 1)]
#[case::in_a_cell(&format!("| a | {}|", "word ".repeat(31)), 1)]
#[case::short_enough(&"word ".repeat(30), 0)]
#[case::two_sentences(&format!("{0}end. {0}", "word ".repeat(20)), 0)]
#[case::two_clauses(&format!("{0}end; {0}", "word ".repeat(20)), 0)]
#[case::two_cells(&format!("| {0}| {0}|", "word ".repeat(20)), 0)]
#[case::code(&format!("```\n{}\n```", "word ".repeat(31)), 0)]
#[case::code_in_a_line(&format!("`{}`", "word ".repeat(31)), 0)]
#[case::a_link(&format!("[{}](docs/a.md)", "word ".repeat(30)), 0)]
fn a_sentence_is_short(#[case] text: &str, #[case] found: usize) {
    assert_eq!(long_sentences(&files(&[("docs/a.md", text)])).len(), found);
}

#[rstest]
#[case::known("| `calls/` | `router` |", 0)]
#[case::below_another("| `calls/router` | |", 0)]
#[case::gone("| `calls/` | `asked` |", 1)]
#[case::no_module("| `DELETE` | `a b` |", 0)]
#[case::outside_of_a_table("`asked`", 0)]
fn a_map_names_modules_that_exist(#[case] text: &str, #[case] found: usize) {
    let files = files(&[("src/calls/router.rs", "")]);
    let map = File::new("ARCHITECTURE.md", text);
    assert_eq!(unknown_modules(&map, &files).len(), found);
}
