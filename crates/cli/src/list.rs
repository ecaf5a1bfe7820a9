//! `formant methods`, `formant networks` and `formant init`: what exists.

use crate::args::{InitArgs, JsonArgs, MethodsArgs, MethodsCommand};
use crate::output::{pasteable, print, print_json};
use crate::run::grouped;
use anyhow::bail;
use formant_methods::ZOO;
use formant_numerics::{NetworkSpec, Shape};
use formant_runtime::files;
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;

pub(crate) fn methods(args: &MethodsArgs) -> anyhow::Result<ExitCode> {
    if let Some(MethodsCommand::Show { name }) = &args.command {
        return show(name);
    }
    if args.json {
        let list: Vec<_> = ZOO
            .iter()
            .map(|e| {
                json!({
                    "name": e.name, "title": e.title, "summary": e.summary, "citation": e.citation,
                    "generic": e.generic, "personal": e.personal,
                    "parameters": e.keys.iter().map(|k| k.name).collect::<Vec<_>>(),
                })
            })
            .collect();
        print_json(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    let width = ZOO.iter().map(|e| e.name.len()).max().unwrap_or(0);
    for entry in ZOO {
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
    writeln!(text, "more: formant methods show NAME")?;
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn models(entry: &formant_methods::Entry) -> &'static str {
    match (entry.generic, entry.personal) {
        (true, true) => "GM PM",
        (true, false) => "GM   ",
        _ => "   PM",
    }
}

fn show(name: &str) -> anyhow::Result<ExitCode> {
    let entry = formant_methods::entry(name)?;
    let mut text = String::new();
    writeln!(text, "{} ({})\n{}\n", entry.title, entry.citation, entry.summary)?;
    writeln!(
        text,
        "generic model (GM)   {}",
        if entry.generic { "yes" } else { "no; tables score the averaged PM, in parentheses" }
    )?;
    writeln!(
        text,
        "personal model (PM)  {}",
        if entry.personal {
            "yes"
        } else {
            "no; tables score the GM on local test sets, in parentheses"
        }
    )?;
    if entry.keys.is_empty() {
        writeln!(text, "\nno hyper-parameters of its own")?;
    } else {
        writeln!(text, "\nhyper-parameters:")?;
    }
    let width = entry.keys.iter().map(|k| k.name.len()).max().unwrap_or(0);
    for key in entry.keys {
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
            grouped(small),
            grouped(large),
            entry.summary
        )?;
    }
    text.push_str(
        "\nparameters with 10 classes; options: hidden (mlp); norm, stem and width (resnet); convolution (cnn, resnet)\n",
    );
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn init(args: &InitArgs) -> anyhow::Result<ExitCode> {
    if args.file.exists() && !args.force {
        bail!(
            "{} exists already\nhint: name another file, or replace it with --force",
            args.file.display()
        );
    }
    files::write_atomic(&args.file, formant_experiment::template().as_bytes())?;
    let (written, pasted) = (args.file.display(), pasteable(&args.file));
    print(&format!("wrote {written}\nrun it with: formant run {pasted}\n"))?;
    Ok(ExitCode::SUCCESS)
}
