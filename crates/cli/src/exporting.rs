//! What `formant report` writes besides the report.

use crate::args::report::ExportArgs;
use crate::output::pasteable;
use formant_report::{ExportFile, Picture, ReportError, RunLog};
use std::path::Path;

/// Files for one of the options, and what to say when they are there.
struct Batch {
    files: Vec<ExportFile>,
    said: String,
}

/// Writes all that is asked for, and gives back a line for each. Nothing is written unless all of it can be.
pub(crate) fn write(args: &ExportArgs, logs: &[RunLog]) -> Result<Vec<String>, ReportError> {
    let batches = batches(args, logs)?;
    let files: Vec<ExportFile> = batches.iter().flat_map(|batch| batch.files.clone()).collect();
    formant_report::write_exports(&files, args.force)?;
    Ok(batches.into_iter().map(|batch| batch.said).collect())
}

fn batches(args: &ExportArgs, logs: &[RunLog]) -> Result<Vec<Batch>, ReportError> {
    let mut batches = Vec::new();
    let below = |files: Vec<ExportFile>, folder: &Path| -> Vec<ExportFile> {
        files.into_iter().map(|file| file.below(folder)).collect()
    };
    let mut add = |files: Vec<ExportFile>, said: String| batches.push(Batch { files, said });
    if let Some(folder) = &args.csv {
        let files = below(formant_report::csv(logs), folder);
        let said = list(&files, folder);
        add(files, said);
    }
    if let Some(file) = &args.latex {
        let text = formant_report::latex(logs)?;
        add(vec![ExportFile::new(file, text)], format!("wrote {}", file.display()));
    }
    for (folder, kind) in [(&args.svg, Picture::Svg), (&args.png, Picture::Png)] {
        if let Some(folder) = folder {
            let files = below(formant_report::pictures(logs, kind)?, folder);
            let said = list(&files, folder);
            add(files, said);
        }
    }
    if let Some(folder) = &args.tensorboard {
        let files = below(formant_report::tensorboard(logs), folder);
        let shown = folder.display();
        let said = format!(
            "wrote {shown}: {} event files; look at them with tensorboard --logdir {}",
            files.len(),
            pasteable(folder)
        );
        add(files, said);
    }
    if let Some(folder) = &args.mlflow {
        let root = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        let files = below(formant_report::mlflow(logs, &root), folder);
        let runs = logs.iter().map(|log| log.methods.len()).sum::<usize>();
        let said = format!(
            "wrote {}: {runs} runs; look at them with MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {}",
            folder.display(),
            pasteable(folder)
        );
        add(files, said);
    }
    Ok(batches)
}

/// `wrote DIR: a.csv, b.csv`.
fn list(files: &[ExportFile], folder: &Path) -> String {
    let names = files
        .iter()
        .map(|file| file.path.strip_prefix(folder).unwrap_or(&file.path).display().to_string());
    format!("wrote {}: {}", folder.display(), names.collect::<Vec<_>>().join(", "))
}
