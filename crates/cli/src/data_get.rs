//! `formant data get`.

use crate::args::data::GetArgs;
use crate::output::{print, print_json};
use crate::progress::ByteBar;
use formant_data::data_dir;
use formant_fetch::Known;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

pub(crate) fn get(args: &GetArgs) -> anyhow::Result<ExitCode> {
    let known = Known::named(&args.name)?;
    let dir = data_dir(args.data_dir.as_deref());
    let mut bar = ByteBar::default();
    let fetched = known.fetch(&dir, args.mirror.as_deref(), &mut |file, done, total| {
        bar.at(file, done, total);
    });
    bar.finish();
    let fetched = fetched?;
    if args.json {
        let files = fetched.iter().map(|file| json!({ "path": file.path, "kept": file.kept }));
        print_json(&Value::Array(files.collect()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for file in &fetched {
        let word = if file.kept { "kept   " } else { "fetched" };
        writeln!(text, "{word}  {}", file.path.display())?;
    }
    let next = match formant_data::CatalogueEntry::named(known.name) {
        Ok(entry) => entry.name.to_owned(),
        Err(_) => dir.join(known.name).display().to_string(),
    };
    writeln!(text, "\nchecked against the published checksums")?;
    text.push_str(&crate::program::renamed(&format!("next  formant data show {next}\n")));
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use formant_data::CatalogueEntry;
    use formant_fetch::{KNOWN, Packing};

    /// What is fetched lies where the catalogue looks for it.
    #[test]
    fn the_catalogue_finds_what_is_fetched() {
        for known in KNOWN {
            let Ok(entry) = CatalogueEntry::named(known.name) else { continue };
            let mut fetched = Vec::new();
            for remote in known.files {
                match remote.packing {
                    Packing::Members(members) => {
                        fetched.extend(members.iter().map(ToString::to_string));
                    }
                    _ => fetched.push(format!("{}/{}", remote.folder, remote.file)),
                }
            }
            let wanted = entry.files.iter().map(|file| format!("{}/{file}", entry.folder));
            for wanted in wanted {
                let packed = format!("{wanted}.gz");
                assert!(fetched.contains(&wanted) || fetched.contains(&packed), "{wanted}");
            }
        }
    }
}
