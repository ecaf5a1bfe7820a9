//! `formant data export`.

use crate::args::DataExportArgs;
use crate::folder::check_empty;
use crate::output::print;
use crate::progress::LateBar;
use crate::run;
use formant_data::{Federation, Share};
use formant_methods::Zoo;
use formant_runtime::files::{self, Synced};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Of more clients than this, only the first are printed.
const MOST_SHOWN: usize = 40;

pub(crate) fn export(args: &DataExportArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    let experiment = run::experiment(&args.experiment, &[], zoo)?;
    // Files of an earlier export would be mistaken for clients of this one.
    check_empty(&args.out, "choose a new folder with --out, or empty this one")?;
    let federation = experiment.federation()?;
    files::create_folder(&args.out)?;
    let clients = federation.clients.len();
    let bar = LateBar::new(clients);
    for client in 0..clients {
        let share = Share::of_client(&federation, client)?.to_bytes()?;
        // Whoever runs this holds the data of all.
        files::write_secret(&args.out.join(name(client, clients)), &share, Synced::Content)?;
        bar.advance(1);
    }
    bar.finish();
    print(&table(&federation, &args.out)?)?;
    Ok(ExitCode::SUCCESS)
}

/// `client-007.safetensors`, with as many digits as the last client needs.
fn name(client: usize, clients: usize) -> String {
    let digits = clients.saturating_sub(1).to_string().len().max(3);
    format!("client-{client:0digits$}.safetensors")
}

fn table(federation: &Federation, out: &Path) -> anyhow::Result<String> {
    let clients = federation.clients.len();
    let mut text = String::new();
    writeln!(text, "{:>6} {:>7} {:>10} {:>7}  file", "client", "train", "validation", "test")?;
    for (client, held) in federation.clients.iter().enumerate().take(MOST_SHOWN) {
        let (train, validation, test) = (held.train.len(), held.validation.len(), held.test.len());
        let file = name(client, clients);
        writeln!(text, "{client:>6} {train:>7} {validation:>10} {test:>7}  {file}")?;
    }
    if clients > MOST_SHOWN {
        writeln!(text, "… and {} more", clients - MOST_SHOWN)?;
    }
    let files = if clients == 1 { "file" } else { "files" };
    writeln!(text, "\nwrote {clients} {files} to {}", out.display())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_numbers_do() {
        assert_eq!(name(7, 20), "client-007.safetensors");
        assert_eq!(name(7, 1_000), "client-007.safetensors");
        assert_eq!(name(7, 1_001), "client-0007.safetensors");
    }
}
