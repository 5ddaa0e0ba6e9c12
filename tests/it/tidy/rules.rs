//! The rules of source files. Each rule returns its violations in words.

use super::source::{File, Word};

/// Maximum lines of a file.
pub const FILE_LINES_MAX: usize = 500;
/// Maximum lines of a function, signature included.
pub const FUNCTION_LINES_MAX: usize = 70;

/// Forbidden in decisions: waiting, asking for the time, using the store.
const IMPURE: [&str; 9] = [
    "async",
    "await",
    "tokio",
    "Instant",
    "SystemTime",
    "SharedClock",
    "SystemClock",
    "sea_orm",
    "Store",
];
/// The only module that reads the system's clock.
const CLOCK: &str = "actors/src/runtime/clock/";

/// One file per table.
const TABLES: &str = "entities/src/tables/";
/// Modules that serve tenants.
const FOR_TENANTS: [&str; 3] = ["src/api/", "src/dashboard/", "src/operations/"];
/// Files that identify the caller, and with it the tenant.
const WHO_ASKS: [&str; 3] = [
    "src/dashboard/link.rs",
    "src/dashboard/prove.rs",
    "src/dashboard/session.rs",
];
/// Commands on all tenants' rows.
const OF_ALL_TENANTS: [&str; 2] = [
    "src/operations/functions/unusable.rs",
    "src/operations/secrets.rs",
];

/// Files without a module comment.
pub fn without_a_purpose(files: &[File]) -> Vec<String> {
    let silent = |file: &&File| !file.text.starts_with("//!");
    files
        .iter()
        .filter(silent)
        .map(|file| file.path.clone())
        .collect()
}

/// Files above the limit. Known ones may keep their length, and must leave the list once they are short enough.
pub fn long_files(files: &[File], known: &[(&str, usize)]) -> Vec<String> {
    let sizes = files
        .iter()
        .filter(|file| !file.is_a_test())
        .map(|file| (file.path.clone(), file.text.lines().count()));
    too_long(sizes.collect(), FILE_LINES_MAX, known)
}

/// Functions above the limit, named `path::function`.
pub fn long_functions(files: &[File], known: &[(&str, usize)]) -> Vec<String> {
    let sizes = files
        .iter()
        .filter(|file| !file.is_a_test())
        .flat_map(|file| {
            let functions = functions(&file.words());
            functions
                .into_iter()
                .map(|(name, lines)| (format!("{}::{name}", file.path), lines))
        });
    too_long(sizes.collect(), FUNCTION_LINES_MAX, known)
}

fn too_long(sizes: Vec<(String, usize)>, most: usize, known: &[(&str, usize)]) -> Vec<String> {
    let long: Vec<&(String, usize)> = sizes.iter().filter(|(_, lines)| *lines > most).collect();
    let grown = long.iter().filter_map(|(name, lines)| {
        let bound = known
            .iter()
            .find(|(known, _)| known == name)
            .map_or(most, |(_, lines)| *lines);
        (*lines > bound).then(|| format!("{name} has {lines} lines of at most {bound}"))
    });
    let settled = known
        .iter()
        .filter(|(name, _)| !long.iter().any(|(long, _)| long == name))
        .map(|(name, _)| format!("{name} is not too long any more: take it off the list"));
    grown.chain(settled).collect()
}

/// Every function with a body, and its lines.
fn functions(words: &[Word]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, pair) in words.windows(2).enumerate() {
        if !(pair[0].is("fn") && pair[1].is_name()) {
            continue;
        }
        let (mut brackets, mut braces) = (0_usize, 0_usize);
        for word in &words[at + 2..] {
            match word.text.as_str() {
                "(" | "[" => brackets += 1,
                ")" | "]" => brackets -= 1,
                "{" => braces += 1,
                "}" => braces -= 1,
                ";" if brackets == 0 && braces == 0 => break,
                _ => continue,
            }
            if word.is("}") && braces == 0 && brackets == 0 {
                found.push((pair[1].text.clone(), word.line - pair[0].line + 1));
                break;
            }
        }
    }
    found
}

/// Reads for tenants that do not start from the tenant: rows of a table with tenants must be found by the
/// tenant-scoped finders, or by a row of the tenant.
pub fn reads_of_everybody(files: &[File]) -> Vec<String> {
    let of_nobody: Vec<&str> = files
        .iter()
        .filter(|file| !has_tenant(file))
        .filter_map(|file| file.path.strip_prefix(TABLES)?.strip_suffix(".rs"))
        .collect();
    let served = |file: &&File| {
        FOR_TENANTS.iter().any(|room| file.path.starts_with(room))
            && !WHO_ASKS.contains(&file.path.as_str())
            && !OF_ALL_TENANTS.contains(&file.path.as_str())
    };
    files
        .iter()
        .filter(|file| !file.is_for_tests())
        .filter(served)
        .flat_map(|file| {
            let words = file.words();
            let told = |at: usize| format!("{}:{} reads of all", file.path, words[at].line);
            (0..words.len())
                .filter(|at| reads_all(&words, *at, &of_nobody))
                .map(told)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// True if the table in this file has a tenant column.
fn has_tenant(table: &File) -> bool {
    let words = table.words();
    words
        .windows(3)
        .any(|at| at[0].is("tenant_id") && at[1].is(":") && at[2].is("TenantId"))
}

/// True if an unscoped read of a table begins here, unless the table is harmless. A table under an alias counts as
/// harmful.
fn reads_all(words: &[Word], at: usize, harmless: &[&str]) -> bool {
    let is = |at: Option<usize>, text: &str| {
        at.and_then(|at| words.get(at))
            .is_some_and(|word| word.is(text))
    };
    let before = |n: usize| at.checked_sub(n);
    if !words[at].is("Entity") {
        return false;
    }
    let named = is(before(1), "::") && before(2).is_some();
    if named && harmless.iter().any(|table| is(before(2), table)) {
        return false;
    }
    let finds = is(Some(at + 1), "::")
        && words
            .get(at + 2)
            .is_some_and(|word| word.text.starts_with("find"));
    let selects = is(before(3), "(") && is(before(4), "from");
    finds || selects || is(Some(at + 1), "as")
}

/// Violations in the modules of decisions; a path is a file or a folder, and must exist.
pub fn impure(files: &[File], pure: &[&str]) -> Vec<String> {
    pure.iter()
        .flat_map(|path| {
            let of_it =
                |file: &&File| file.path == *path || file.path.starts_with(&format!("{}/", path));
            let inside: Vec<&File> = files.iter().filter(of_it).collect();
            let absent = inside.is_empty().then(|| format!("{path} is not there"));
            let breaches = inside
                .into_iter()
                .filter(|file| !file.is_for_tests())
                .flat_map(|file| {
                    let words = file.words();
                    let bad = |word: &&Word| IMPURE.iter().any(|impure| word.is(impure));
                    let told =
                        |word: &Word| format!("{}:{} uses {}", file.path, word.line, word.text);
                    words.iter().filter(bad).map(told).collect::<Vec<_>>()
                });
            absent.into_iter().chain(breaches).collect::<Vec<_>>()
        })
        .collect()
}

/// Places that read the system's clock themselves.
pub fn own_clocks(files: &[File]) -> Vec<String> {
    let asks = |at: &[Word]| {
        let now = at[2].is("now") && (at[0].is("SystemTime") || at[0].is("Utc"));
        at[1].is("::") && (now || at[2].is("now_utc") || at[2].is("now_local"))
    };
    files
        .iter()
        .filter(|file| !file.is_for_tests() && !file.path.starts_with(CLOCK))
        .flat_map(|file| {
            let words = file.words();
            let told = |at: &[Word]| format!("{}:{} asks for the date", file.path, at[0].line);
            words
                .windows(3)
                .filter(|at| asks(at))
                .map(told)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Lines that compare a secret with `==` or `!=`, which stop at the first difference: their duration tells a
/// guesser how much was right.
pub fn compared_secrets(files: &[File]) -> Vec<String> {
    let compares = |line: &[Word]| {
        let exposes = line.iter().any(|word| word.is("expose"));
        let is_sign = |at: &[Word]| (at[0].is("=") || at[0].is("!")) && at[1].is("=");
        exposes && line.windows(2).any(is_sign)
    };
    files
        .iter()
        .filter(|file| !file.is_for_tests())
        .flat_map(|file| {
            let words = file.words();
            let lines = words.chunk_by(|one, next| one.line == next.line);
            lines
                .filter(|line| compares(line))
                .map(|line| format!("{}:{}", file.path, line[0].line))
                .collect::<Vec<_>>()
        })
        .collect()
}
