//! `formant data import` and `formant data check`.

use crate::args::data::{CheckArgs, ImportArgs};
use crate::output::{check_free, pasteable, print, print_json};
use crate::progress::LateBar;
use formant_data::{EXTENSION, Imported, Values};
use formant_runtime::quantity::{bytes, count};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

pub(crate) fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    // Everything that can be refused is refused before the data are read.
    check_free(&args.out, args.force)?;
    let origin = args.origin.origin(&args.source)?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.and_then(|n| usize::try_from(n).ok()).unwrap_or_else(cores);
    let (bar, start) = (LateBar::new(0), Instant::now());
    let imported = formant_data::import(
        &args.source,
        origin.dir.as_deref(),
        &args.out,
        &origin.reading(threads),
        &mut |done, total| bar.at(done, total),
    );
    bar.finish();
    let (imported, seconds) = (imported?, start.elapsed().as_secs_f64());
    if args.json {
        print_json(&entry(&imported, &args.out, seconds))?;
    } else {
        print(&said(&imported, &args.out, seconds)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn entry(imported: &Imported, out: &Path, seconds: f64) -> serde_json::Value {
    json!({
        "path": out,
        "name": imported.name,
        "train": imported.train,
        "test": imported.test,
        "shape": imported.description.shape,
        "values": imported.description.values,
        "classes": imported.description.class_names,
        "normalisation": imported.description.normalisation,
        "clients": imported.clients,
        "remarks": imported.remarks,
        "bytes": imported.bytes,
        "seconds": seconds,
    })
}

fn said(imported: &Imported, out: &Path, seconds: f64) -> anyhow::Result<String> {
    let Imported { name, description, train, test, clients, remarks, .. } = imported;
    let what = if description.values == Values::Bytes { "pixels" } else { "numbers" };
    let mut text = String::new();
    writeln!(
        text,
        "{name}: {} training and {} test samples of {} {what}, {} classes",
        count(*train as u64),
        count(*test as u64),
        description.shape,
        count(description.class_names.len() as u64),
    )?;
    if let Some(clients) = clients {
        writeln!(text, "the samples belong to {} clients", count(*clients as u64))?;
    }
    for remark in remarks {
        writeln!(text, "note: {remark}")?;
    }
    let out_path = pasteable(out);
    write!(text, "\nwrote {out_path}, {}", bytes(imported.bytes))?;
    // The speed of a moment says nothing.
    if seconds >= 1.0 {
        let speed = (train + test) as f64 / seconds;
        write!(text, ", in {seconds:.1} s: {} samples/s", count(speed as u64))?;
    }
    writeln!(text)?;
    if out.extension().is_none_or(|extension| extension != EXTENSION) {
        writeln!(text, "(files that end in .{EXTENSION} are easier to tell from others)")?;
    }
    let run =
        format!("\nnext  formant data show {out_path}\n      formant init --data {out_path}\n");
    text.push_str(&crate::program::renamed(&run));
    Ok(text)
}

pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let (dataset, read) = formant_data::check(&args.file)?;
    let seconds = start.elapsed().as_secs_f64();
    let (train, test) = (dataset.train.len(), dataset.test.len());
    if args.json {
        print_json(&json!({
            "path": args.file,
            "name": dataset.name,
            "train": train,
            "test": test,
            "bytes": read,
            "seconds": seconds,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let speed = bytes((read as f64 / seconds.max(1e-9)) as u64);
    print(&format!(
        "{}: as written, {} training and {} test samples\nread {} in {seconds:.2} s, {speed}/s\n",
        args.file.display(),
        count(train as u64),
        count(test as u64),
        bytes(read),
    ))?;
    Ok(ExitCode::SUCCESS)
}
