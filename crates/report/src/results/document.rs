//! Tables in documents: what stands between two comments is made from a file of results.
//!
//! ```text
//! <!-- table: results/cifar10.json layout=overview -->
//! | method | … |
//! <!-- /table -->
//! ```

use super::{Form, Layout, Results, tables};
use crate::ReportError;
use std::path::Path;

const BEGIN: &str = "<!-- table:";
const END: &str = "<!-- /table -->";

/// A table that is not what its results say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The line of the comment that opens it, counted from 1.
    pub line: usize,
    /// The file of results.
    pub source: String,
}

/// A document with every table made anew, and the tables that were different. `load` reads a file of
/// results by the path that the comment names, which is relative to the document.
///
/// ```
/// use formant_report::results::rewrite;
///
/// let text = "# No tables\n";
/// let (same, drifts) = rewrite("a.md".as_ref(), text, &mut |_| unreachable!())?;
/// assert_eq!((&*same, drifts.len()), (text, 0));
/// # Ok::<(), formant_report::ReportError>(())
/// ```
pub fn rewrite(
    file: &Path,
    text: &str,
    load: &mut dyn FnMut(&str) -> Result<Results, ReportError>,
) -> Result<(String, Vec<Drift>), ReportError> {
    let (mut made, mut drifts) = (String::with_capacity(text.len()), Vec::new());
    let mut open: Option<(usize, String, String, String)> = None;
    for (place, line) in text.split_inclusive('\n').enumerate() {
        let number = place + 1;
        let wrong = |reason: String, remedy: &str| ReportError::Document {
            file: file.into(),
            line: number,
            reason,
            remedy: remedy.into(),
        };
        let bare = line.trim();
        if let Some(rest) = bare.strip_prefix(BEGIN) {
            if let Some((from, ..)) = open {
                let reason = format!("a table begins within the table of line {from}");
                return Err(wrong(reason, "close that one first with <!-- /table -->"));
            }
            let rest = rest.strip_suffix("-->").ok_or_else(|| {
                wrong("the comment does not end on its line".into(), "end it with -->")
            })?;
            let (source, layout) = read(rest).map_err(|reason| wrong(reason, OPTIONS))?;
            let results = load(&source)?;
            if let Some(cell) = &layout.cell {
                let known: Vec<String> =
                    results.cells().into_iter().map(|cell| cell.name).collect();
                if !known.contains(cell) {
                    let known = format!("name one of: {}", known.join("; "));
                    return Err(wrong(format!("{source} has no cell {cell:?}"), &known));
                }
                if layout.overview {
                    let reason = "an overview is of all cells".to_owned();
                    return Err(wrong(reason, "leave out layout=overview or cell"));
                }
            }
            if let Some(method) = &layout.over {
                check_pairs(&results, method, &layout)
                    .map_err(|(reason, remedy)| wrong(reason, &remedy))?;
            }
            let table = format!("\n{}\n", tables(&results, &layout).trim_end());
            made.push_str(line);
            open = Some((number, source, format!("{table}\n"), String::new()));
        } else if bare == END {
            let Some((from, source, table, before)) = open.take() else {
                return Err(wrong("a table ends that has not begun".into(), "remove the line"));
            };
            if before.trim() != table.trim() {
                drifts.push(Drift { line: from, source });
            }
            made.push_str(&table);
            made.push_str(line);
        } else if let Some((.., before)) = &mut open {
            before.push_str(line);
        } else {
            made.push_str(line);
        }
    }
    match open {
        None => Ok((made, drifts)),
        Some((line, ..)) => Err(ReportError::Document {
            file: file.into(),
            line,
            reason: "the table does not end".into(),
            remedy: "close it with <!-- /table -->".into(),
        }),
    }
}

/// Whether a method can be paired with others; else the reason and the remedy.
fn check_pairs(results: &Results, method: &str, layout: &Layout) -> Result<(), (String, String)> {
    if layout.overview {
        let reason = "an overview is of all methods alike".to_owned();
        return Err((reason, "leave out layout=overview or over".into()));
    }
    if results.form != Form::Methods {
        let reason = "over is for results that compare methods".to_owned();
        return Err((reason, "leave out over".into()));
    }
    let mut known: Vec<&str> = results.runs.iter().map(|run| &*run.method).collect();
    known.sort_unstable();
    known.dedup();
    if known.contains(&method) {
        return Ok(());
    }
    Err((format!("no method is called {method:?}"), format!("name one of: {}", known.join("; "))))
}

const OPTIONS: &str = "write <!-- table: FILE.json -->, or with layout=overview, over=METHOD, cell=\"α = 0.5\", notes=brief or notes=none behind the file";

/// The file and the layout that a comment names.
fn read(text: &str) -> Result<(String, Layout), String> {
    let mut words = words(text)?.into_iter();
    let source = words.next().ok_or_else(|| "the comment names no file".to_owned())?;
    let mut layout = Layout::default();
    for word in words {
        match word.split_once('=') {
            Some(("layout", "overview")) => layout.overview = true,
            Some(("over", method)) => layout.over = Some(method.into()),
            Some(("cell", cell)) => layout.cell = Some(cell.into()),
            Some(("notes", "none")) => layout.bare = true,
            Some(("notes", "brief")) => layout.brief = true,
            _ => return Err(format!("`{word}` is no option of a table")),
        }
    }
    Ok((source, layout))
}

/// Words between blanks; blanks within double quotes are part of a word.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        match letter {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            other => word.push(other),
        }
    }
    if quoted {
        return Err("a quotation mark is not closed".into());
    }
    words.extend((!word.is_empty()).then_some(word));
    Ok(words)
}
