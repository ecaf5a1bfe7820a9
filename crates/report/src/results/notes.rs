//! What is said below the tables.

use super::{Form, Open, Results};
use crate::quantity::counted;
use formant_runtime::event::Approach;

impl Results {
    /// Everything that a reader has to know to read the tables rightly.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let runs = || self.runs.iter().filter(|run| run.scores.is_some());
        let joins = self.form == Form::Newcomers;
        if joins {
            notes.extend(self.about_newcomers());
        }
        if !joins && runs().any(|run| !run.generic) {
            notes.push("(GM) trains no generic model: its personal models averaged, on the global test set. Not ranked.".to_owned());
        }
        if !joins && runs().any(|run| !run.personal) {
            notes.push("(PM) trains no personal models: its generic model on the clients' own test sets. Not ranked.".to_owned());
        }
        let seeds = self.seeds();
        if runs().next().is_some() {
            notes.push(if let [seed] = &seeds[..] {
                format!("Seed {seed} alone: no figure for noise.")
            } else {
                let list: Vec<String> = seeds.iter().map(ToString::to_string).collect();
                format!("Mean ± standard deviation over the seeds {}.", list.join(", "))
            });
        }
        if [Form::Methods, Form::Clock, Form::Newcomers].contains(&self.form) {
            notes.push("Bold: ahead of every other in the column by more than the noise of seeds, clients and test samples (95 % bootstrap intervals of paired differences, docs/COMPARING.md). ≈: the best, or level with it.".to_owned());
        }
        if !self.paper.is_empty() && self.form == Form::Methods {
            notes.push("paper: its figure, the best over the rounds. difference: our best minus the paper's, in points.".to_owned());
        }
        notes.extend(self.notes.iter().cloned());
        for run in &self.runs {
            if let Some(trouble) = &run.trouble {
                let cell = self.cell_name(&run.cell);
                let place = if cell.is_empty() { String::new() } else { format!(", {cell}") };
                notes.push(format!("{}{place}, seed {}: {trouble}.", run.method, run.seed));
            }
        }
        if !self.missing.is_empty() {
            let count = self.missing.len();
            let shown: Vec<&str> = self.missing.iter().take(6).map(String::as_str).collect();
            let more = if count > shown.len() { "; …" } else { "" };
            notes.push(format!("Missing ({count}): {}{more}.", shown.join("; ")));
        }
        notes
    }
}

impl Results {
    fn about_newcomers(&self) -> Vec<String> {
        let found = || self.runs.iter().flat_map(|run| run.newcomers.iter().map(move |j| (run, j)));
        let who = found().map(|(_, joined)| joined.last.len()).max().unwrap_or(0);
        let mut notes = vec![format!(
            "{} joined after the last round: accuracy of their personal models after so many epochs on their own samples, weighted by local test sizes; the worst tenth after the last epoch. Methods are ranked by the last epoch.",
            counted(who, "client")
        )];
        if found().any(|(run, joined)| !run.generic && joined.approach == Approach::FineTuning) {
            notes.push("In parentheses: without a generic model, the mean of the personal ones is fine-tuned. Not ranked.".to_owned());
        }
        if found().any(|(_, joined)| joined.failed > 0) {
            notes.push("† Training diverged at some newcomers, whose models stay as they were before. Not ranked.".to_owned());
        }
        notes
    }
}

impl Open {
    /// In one sentence.
    pub(super) fn sentence(&self) -> String {
        format!("{}: {} ({})", self.setting, self.chosen, self.why)
    }
}
