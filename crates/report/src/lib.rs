//! From a run's event log to tables and a one-file HTML report.
//!
//! [`RunLog`] is what an `events.jsonl` says, [`rows`] sums it up with one [`Row`] per method,
//! [`table`] prints the rows for a terminal or for Markdown, and [`markdown`] and [`html`] are the
//! two reports. [`results`] are those of many runs in one file. [`write_reports`] does all of it for a run's folder. Nothing here looks at a clock
//! or at the machine: equal logs give equal bytes.
//!
//! ```
//! use formant_report::{RunLog, rows, table};
//!
//! let lines = r#"{"event":"run_started","format":1,"formant":"0.1.0","name":"tiny","seed":7,"rounds":1,"config":{},"network":"lenet5","parameters":44426,"dataset":"mnist","split":"test","global_test":100,"clients":[{"train":80,"test":20}],"methods":[{"label":"fedavg","name":"fedavg","title":"FedAvg","generic":true,"personal":false,"hyper_parameters":{}}]}
//! {"event":"evaluated","method":"fedavg","round":1,"gm":{"accuracy":0.974,"loss":0.1},"pm":{"weighted":0.931,"mean":0.931,"worst_decile":0.931,"per_client":[0.931]},"seconds":0.5}
//! {"event":"method_finished","method":"fedavg","rounds":1,"seconds":2.0,"fingerprint":"00","stopped":null}
//! "#;
//! let log = RunLog::from_reader("events.jsonl".as_ref(), lines.as_bytes())?;
//! let text = table(&rows(&log), false);
//! assert!(text.contains("97.4"));
//! assert!(text.contains("(93.1)"), "FedAvg trains no personal models");
//! # Ok::<(), formant_report::ReportError>(())
//! ```

mod alone;
mod answers;
mod attacked;
mod bootstrap;
mod compare;
mod differences;
mod entrant;
mod error;
mod export;
mod files;
mod gains;
mod html;
mod insight;
mod log;
mod markdown;
mod newcomers;
mod paired;
mod plot;
mod privacy;
mod quantity;
pub mod results;
mod scoreboard;
mod seeds;
mod setting;
mod spectra;
mod summary;
mod table;
mod timeline;

pub use alone::{MeanWorseOff, WorseOff};
pub use answers::{Answered, Answers, Confusion, answers};
pub use attacked::Attacked;
pub use bootstrap::Interval;
pub use compare::{Comparison, Group, GroupRow, Problem, compare, comparison_table};
pub use differences::difference_table;
pub use error::ReportError;
pub use export::{
    ExportFile, MethodRecord, Picture, Record, RunFacts, Scores, comparison_csv, comparison_latex,
    csv, latex, mlflow, pictures, png, record, seed_csv, seed_latex, tensorboard, write_exports,
};
pub use files::{write_reports, write_series_reports};
pub use gains::{ClientGain, Gained, Gains, gains};
pub use html::{Figure, figures, html, html_of};
pub use insight::{Divided, Insight, insight};
pub use log::{
    Activity, Evaluation, Failure, Finish, Further, MethodLog, Models, PhaseTotals, RefusedUpload,
    RoundLog, RunLog,
};
pub use markdown::{markdown, series_markdown};
pub use newcomers::{EpochRow, NewcomerEntry, NewcomerRow, newcomer_svg, newcomer_table};
pub use paired::{
    Contest, ContestEntry, Difference, RESAMPLES, Significance, Standing, Standings, Which, covers,
    significance,
};
pub use privacy::spent;
pub use seeds::{FurtherSeedRow, SeedRow, Spread, over_seeds, seed_table};
pub use spectra::{Apart, SpectralCourse, TermShare, spectral_courses};
pub use summary::{CandidateRow, FurtherRow, Row, rows, unranked};
pub use table::{markdown_table, table};
pub use timeline::{Timeline, timeline_svg, timeline_text};
