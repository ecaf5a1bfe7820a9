//! `formant methods`, `formant networks` and `formant init`: what exists.

use crate::args::{InitArgs, JsonArgs, MethodsArgs, MethodsCommand};
use crate::output::{pasteable, print, print_json};
use crate::program;
use crate::suggestion;
use anyhow::bail;
use formant_methods::schema::Key;
use formant_methods::{ALLOW_DEGENERATE, Entry, Zoo};
use formant_numerics::{NetworkSpec, Shape};
use formant_runtime::files::{self, Synced};
use formant_runtime::quantity::count;
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;

pub(crate) fn methods(args: &MethodsArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    if let Some(MethodsCommand::Show { name }) = &args.command {
        return show(name, zoo);
    }
    if args.markdown {
        print(&page(zoo)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.json {
        let list: Vec<_> = zoo
            .entries()
            .iter()
            .map(|e| {
                json!({
                    "name": e.name, "title": e.title, "summary": e.summary, "citation": e.citation,
                    "generic": e.generic, "personal": e.personal, "needs": e.needs.word(),
                    "parameters": e.keys.iter().map(|k| k.name).collect::<Vec<_>>(),
                })
            })
            .collect();
        print_json(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    let width = zoo.entries().iter().map(|e| e.name.len()).max().unwrap_or(0);
    for entry in zoo.entries() {
        writeln!(
            text,
            "{:width$}  {}  {} ({})",
            entry.name,
            models(entry),
            entry.summary,
            entry.citation
        )?;
    }
    writeln!(text, "\nGM: trains a generic model; PM: trains a personal model for each client")?;
    writeln!(text, "more: {} methods show NAME", program::name())?;
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn models(entry: &Entry) -> &'static str {
    match (entry.generic, entry.personal) {
        (true, true) => "GM PM",
        (true, false) => "GM   ",
        _ => "   PM",
    }
}

fn show(name: &str, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    let entry = zoo.entry(name)?;
    let mut text = String::new();
    writeln!(text, "{} ({}): {}\n", entry.title, entry.citation, entry.summary)?;
    writeln!(text, "{}\n", rules(entry))?;
    let (generic, personal) = trained(entry);
    writeln!(text, "generic model (GM)   {generic}\npersonal model (PM)  {personal}")?;
    writeln!(text, "the server needs     {}", entry.needs.word())?;
    if entry.keys.is_empty() {
        writeln!(text, "\nno hyper-parameters of its own")?;
    } else {
        writeln!(text, "\nhyper-parameters:")?;
    }
    let keys = keys(entry);
    let width = keys.iter().map(|k| k.name.len()).max().unwrap_or(0);
    for key in keys {
        let default = key.default_value().map_or("unset".into(), |v| v.to_string());
        let symbol =
            if key.symbol.is_empty() { String::new() } else { format!("{}: ", key.symbol) };
        writeln!(text, "  {:width$} = {default}", key.name)?;
        writeln!(text, "  {:width$}   {symbol}{}", "", key.help)?;
        writeln!(text, "  {:width$}   {}", "", key.kind.describe())?;
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Which models a method trains, and what stands for one that it does not.
fn trained(entry: &Entry) -> (&'static str, &'static str) {
    let generic =
        if entry.generic { "yes" } else { "no; tables score the averaged PM, in parentheses" };
    let personal = if entry.personal {
        "yes"
    } else {
        "no; tables score the GM on local test sets, in parentheses"
    };
    (generic, personal)
}

/// A method's keys, and the one that admits a degenerate setting where there is such a setting.
fn keys(entry: &Entry) -> Vec<Key> {
    let admits = entry.can_degenerate().then_some(ALLOW_DEGENERATE);
    entry.keys.iter().copied().chain(admits).collect()
}

/// What a method's file opens with, without the title.
fn rules(entry: &Entry) -> String {
    let text = entry.documentation();
    text.split_once("\n\n").map_or(String::new(), |(_, rest)| rest.to_owned())
}

/// The page docs/METHODS.md.
fn page(zoo: &Zoo) -> anyhow::Result<String> {
    let mut text = String::from(
        "# The methods\n\nWritten by `formant methods --markdown` from the methods' own files and key tables.\n\n\
         | name | GM | PM | |\n| --- | --- | --- | --- |\n",
    );
    for entry in zoo.entries() {
        let mark = |yes: bool| if yes { "yes" } else { "–" };
        let (name, anchor) = (entry.name, entry.title.to_lowercase());
        let (generic, personal) = (mark(entry.generic), mark(entry.personal));
        writeln!(text, "| [`{name}`](#{anchor}) | {generic} | {personal} | {} |", entry.summary)?;
    }
    text.push_str(
        "\nA method without a GM has its averaged PM scored on the global test set, one without PMs its GM on the local \
         test sets; tables print both in parentheses.\n",
    );
    for entry in zoo.entries() {
        write!(text, "\n## {}\n\n{}\n", entry.title, rules(entry))?;
        if !entry.keys.is_empty() {
            text.push_str("\n| key | symbol | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n");
        }
        for key in keys(entry).iter().filter(|_| !entry.keys.is_empty()) {
            let default = key.default_value().map_or("unset".into(), |v| format!("`{v}`"));
            let (allowed, symbol) = (key.kind.describe(), key.symbol);
            writeln!(text, "| `{}` | {symbol} | {default} | {allowed} | {} |", key.name, key.help)?;
        }
    }
    Ok(text)
}

pub(crate) fn networks(args: &JsonArgs) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for entry in formant_numerics::CATALOGUE {
        let size = |shape| -> anyhow::Result<usize> {
            Ok(NetworkSpec::named(entry.name).build(shape, 10)?.layout().parameters())
        };
        rows.push((entry, size(Shape::new(1, 28, 28))?, size(Shape::new(3, 32, 32))?));
    }
    if args.json {
        let list: Vec<_> = rows
            .iter()
            .map(|(e, small, large)| {
                json!({ "name": e.name, "summary": e.summary, "parameters_28x28x1": small, "parameters_32x32x3": large })
            })
            .collect();
        print_json(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    writeln!(text, "{:9}  {:>11}  {:>11}", "", "28x28x1", "32x32x3")?;
    for (entry, small, large) in rows {
        writeln!(
            text,
            "{:9}  {:>11}  {:>11}  {}",
            entry.name,
            count(small as u64),
            count(large as u64),
            entry.summary
        )?;
    }
    text.push_str(
        "\nparameters with 10 classes; options: hidden (mlp); norm, stem and width (resnet); convolution (cnn, resnet)\n",
    );
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn init(args: &InitArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    if args.file.exists() && !args.force {
        bail!(
            "{} exists already\nhint: name another file, or replace it with --force",
            args.file.display()
        );
    }
    let text = match &args.data {
        Some(source) => suggestion::of(&args.origin.origin(source)?, zoo)?,
        None => formant_experiment::template(zoo),
    };
    files::write(&args.file, text.as_bytes(), Synced::Content)?;
    let (written, pasted) = (args.file.display(), pasteable(&args.file));
    print(&format!("wrote {written}\nrun it with: {} run {pasted}\n", program::name()))?;
    Ok(ExitCode::SUCCESS)
}
