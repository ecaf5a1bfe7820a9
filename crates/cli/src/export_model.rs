//! `formant export`.

use crate::args::model::ExportArgs;
use crate::folder::check_empty;
use crate::output::{markdown_table, pasteable, print, print_json};
use crate::progress::LateBar;
use anyhow::bail;
use formant_model::{Card, Format, ModelFile, folder};
use formant_runtime::files::{self, Synced};
use formant_runtime::quantity::count;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where all models of a folder go.
const FOLDER: &str = "export";

/// Of more files than this, only the first are printed.
const MOST_SHOWN: usize = 40;

/// One model in its new form.
struct Written {
    path: PathBuf,
    card: Card,
    bytes: usize,
}

pub(crate) fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let written = if args.all { all(args)? } else { vec![one(args)?] };
    if args.json {
        print_json(&Value::Array(written.iter().map(entry).collect()))?;
    } else {
        print(&said(args, &written)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn one(args: &ExportArgs) -> anyhow::Result<Written> {
    let source = folder::locate(&args.source, args.choice.method.as_deref(), args.choice.which())?;
    let file = ModelFile::read(&source)?;
    let path = args.out.clone().unwrap_or_else(|| name(&source, &file.card, args.format).into());
    write(&source, file, path, args)
}

fn all(args: &ExportArgs) -> anyhow::Result<Vec<Written>> {
    let sources = folder::all(&args.source, args.choice.method.as_deref())?;
    let out = args.out.clone().unwrap_or_else(|| FOLDER.into());
    if !args.force {
        // Nothing is written if anything would be in the way.
        let remedy = "choose a new folder with --out, or replace what is there with --force";
        check_empty(&out, remedy)?;
    }
    files::create_folder(&out)?;
    let mut taken = HashSet::new();
    let mut written = Vec::new();
    let bar = LateBar::new(sources.len());
    for source in sources {
        let file = ModelFile::read(&source)?;
        let mut path = out.join(name(&source, &file.card, args.format));
        let plain = path.clone();
        // Labels that differ in what no file name can show.
        let mut count = 1;
        while !taken.insert(path.to_string_lossy().to_lowercase()) {
            count += 1;
            let stem = plain.file_stem().unwrap_or_default().to_string_lossy();
            path = plain.with_file_name(format!("{stem}-{count}.{}", args.format.name()));
        }
        written.push(write(&source, file, path, args)?);
        bar.advance(1);
    }
    bar.finish();
    Ok(written)
}

fn write(
    source: &Path,
    file: ModelFile,
    path: PathBuf,
    args: &ExportArgs,
) -> anyhow::Result<Written> {
    let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if same(source, &path) {
        bail!(
            "{} is the model itself\nhint: name another file with --out, or another --format",
            path.display()
        );
    }
    if path.exists() && (!args.force || path.is_dir()) {
        let remedy = if path.is_dir() {
            "it is a folder; name a file, or export --all models into it"
        } else {
            "name another file with --out, or replace it with --force"
        };
        bail!("{} exists already\nhint: {remedy}", path.display());
    }
    let bytes = formant_model::export(&file, args.format)?;
    if let Some(parent) = path.parent() {
        files::create_folder(parent)?;
    }
    files::write(&path, &bytes, Synced::Content)?;
    Ok(Written { path, card: file.card, bytes: bytes.len() })
}

/// `SCD-personal-3.onnx`: the method, whose model it is, and the format.
fn name(source: &Path, card: &Card, format: Format) -> String {
    let label = folder::method_folders([card.method.label.as_str()]).remove(0);
    let best = source.file_name().is_some_and(|name| name == folder::BEST);
    let best = if best { "-best" } else { "" };
    format!("{label}-{}{best}.{}", card.role.word(), format.name())
}

fn entry(written: &Written) -> Value {
    json!({
        "path": written.path,
        "method": written.card.method.label,
        "model": written.card.role.word(),
        "round": written.card.round,
        "bytes": written.bytes,
    })
}

/// A table and how to go on.
fn said(args: &ExportArgs, written: &[Written]) -> anyhow::Result<String> {
    let mut cells = vec![["file", "method", "model", "round", "bytes"].map(str::to_owned)];
    cells.extend(written.iter().take(MOST_SHOWN).map(|file| {
        [
            pasteable(&file.path),
            file.card.method.label.clone(),
            file.card.role.word(),
            file.card.round.to_string(),
            count(file.bytes as u64),
        ]
    }));
    let mut text = markdown_table(&cells);
    if written.len() > MOST_SHOWN {
        let (total, more) = (written.len(), written.len() - MOST_SHOWN);
        writeln!(text, "\n… and {more} more: {total} files in all")?;
    }
    let reader = match args.format {
        Format::Safetensors => "safetensors.torch.load_file",
        Format::Onnx => "onnxruntime.InferenceSession",
        Format::Npz => "numpy.load",
    };
    writeln!(text, "\nread it in Python with {reader}; docs/MODELS.md shows how")?;
    Ok(text)
}
