//! One experiment with several seeds, each in a run folder of its own.
//!
//! A series' folder holds `series.json`, which names the seeds, the experiment that they share, and `seed-N` for
//! each of them: an ordinary run folder. What is finished is never done again; what was interrupted goes on.

use crate::divided::SharedData;
use crate::{Draft, Observer, StudyError};
use formant_experiment::{Experiment, Override};
use formant_methods::Zoo;
use formant_report::RunLog;
use formant_runtime::files::{self, Synced};
use formant_runtime::seal::{Broken, Check, seal, verify};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{Checkpoint, EVENTS_FILE, RuntimeError, check_experiment};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// What makes a folder that of a series.
pub const SERIES_FILE: &str = "series.json";

/// The experiment's name in the folder of a run or of a series.
const EXPERIMENT_FILE: &str = "experiment.toml";

/// The most seeds of a series.
const MOST: usize = 1_000;

/// Which seeds an experiment is run with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seeds {
    /// So many, from the experiment's own on.
    Count(usize),
    /// These.
    List(Vec<u64>),
}

impl Seeds {
    /// Reads `5` as a number of seeds and `1,2,7` as the seeds themselves.
    pub fn parse(text: &str) -> Result<Self, StudyError> {
        let refuse = |why: String| StudyError::Seeds { text: text.to_owned(), why };
        // A TOML file holds seeds as signed numbers.
        let number = |part: &str| {
            let seed = part.trim().parse::<u64>().ok().filter(|seed| i64::try_from(*seed).is_ok());
            seed.ok_or_else(|| refuse(format!("{part:?} is no whole number from 0 on")))
        };
        if !text.contains(',') {
            let count = number(text)? as usize;
            return match count {
                0 => Err(refuse("no seed is no run".to_owned())),
                1..=MOST => Ok(Self::Count(count)),
                _ => Err(refuse(format!("more than {MOST} runs at once"))),
            };
        }
        let list = text.split(',').map(number).collect::<Result<Vec<u64>, _>>()?;
        if let Some((_, seed)) =
            list.iter().enumerate().find(|(i, seed)| list[..*i].contains(*seed))
        {
            return Err(refuse(format!("{seed} is there twice")));
        }
        if list.len() > MOST {
            return Err(refuse(format!("more than {MOST} runs at once")));
        }
        Ok(Self::List(list))
    }

    fn from(&self, own: u64) -> Result<Vec<u64>, StudyError> {
        match self {
            Self::Count(count) => {
                let last = own.checked_add(*count as u64 - 1).filter(|l| i64::try_from(*l).is_ok());
                let last = last.ok_or_else(|| StudyError::Seeds {
                    text: count.to_string(),
                    why: format!("there are not so many seeds from {own} on"),
                })?;
                Ok((own..=last).collect())
            }
            Self::List(list) => Ok(list.clone()),
        }
    }
}

/// An experiment with several seeds.
pub struct Series {
    shared: Experiment,
    runs: Vec<SeedRun>,
}

/// One seed of a series.
struct SeedRun {
    seed: u64,
    experiment: Experiment,
}

/// What `series.json` says.
#[derive(Serialize, Deserialize)]
struct Manifest {
    format: u32,
    seeds: Vec<u64>,
}

/// Sealed since the second.
const FORMAT: u32 = 2;

impl Series {
    /// Builds every run, so that whatever is wrong is refused before anything runs.
    ///
    /// All runs have one division of the data, that of `data.seed` or else of the experiment's own seed, unless they
    /// are to `redivide`: then every seed draws its own.
    pub fn new(
        draft: &Draft,
        seeds: &Seeds,
        redivide: bool,
        last: &[Override],
    ) -> Result<Self, StudyError> {
        let own = draft.experiment(last)?;
        let division = if redivide {
            vec![Override::parse("data.seed=")?]
        } else {
            let seed = own.data.seed.unwrap_or(own.seed);
            vec![Override::new(&["data", "seed"], seed as i64)]
        };
        let shared = draft.experiment(&[last, &division].concat())?;
        let runs = seeds.from(own.seed)?.into_iter().map(|seed| {
            let own = Override::new(&["seed"], seed as i64);
            let experiment = draft.experiment(&[last, &division, &[own]].concat())?;
            Ok(SeedRun { seed, experiment })
        });
        Ok(Self { runs: runs.collect::<Result<_, StudyError>>()?, shared })
    }

    /// Whether a folder is that of a series.
    pub fn is_one(folder: &Path) -> bool {
        folder.join(SERIES_FILE).is_file()
    }

    /// The series that a folder holds, with some more changes, for instance the number of threads.
    pub fn open(folder: &Path, last: &[Override], zoo: &Zoo) -> Result<Self, StudyError> {
        let draft = Draft::read(&folder.join(EXPERIMENT_FILE), zoo)?;
        Self::of(&draft, seeds_of(folder)?, last)
    }

    fn of(draft: &Draft, seeds: Vec<u64>, last: &[Override]) -> Result<Self, StudyError> {
        let runs = seeds.into_iter().map(|seed| {
            let own = Override::new(&["seed"], seed as i64);
            Ok(SeedRun { seed, experiment: draft.experiment(&[last, &[own]].concat())? })
        });
        let runs = runs.collect::<Result<_, StudyError>>()?;
        Ok(Self { runs, shared: draft.experiment(last)? })
    }

    /// Has all seeds of a folder go on to more rounds or methods, which an experiment names that is otherwise the
    /// folder's own. Every seed that has begun is asked whether it can, before anything is written.
    pub fn extend(
        folder: &Path,
        longer: &Experiment,
        data: &mut SeriesData,
        observer: &dyn Observer,
        zoo: &Zoo,
    ) -> Result<(), StudyError> {
        let series = Self::of(&Draft::new(longer.to_table(), zoo), seeds_of(folder)?, &[])?;
        let _lock = files::lock(folder)?;
        for run in &series.runs {
            let begun = folder.join(name(run.seed));
            if begun.join(EVENTS_FILE).is_file() {
                let plan = run.experiment.plan_on(data.of(&run.experiment, observer)?)?;
                sim::check_extension(&plan, &begun)?;
            }
        }
        write_experiment(folder, &series.shared)
    }

    /// Puts the series into a folder that is there, before its first run. Whoever creates the manifest owns the
    /// folder, however many start in the same moment.
    pub fn create(&self, folder: &Path) -> Result<(), StudyError> {
        let manifest = Manifest { format: FORMAT, seeds: self.seeds() };
        let (path, mut text) = (folder.join(SERIES_FILE), serde_json::to_vec_pretty(&manifest)?);
        seal(&mut text, Check::default());
        let created = File::create_new(&path).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        created.map_err(|error| RuntimeError::file("create", &path, error))?;
        write_experiment(folder, &self.shared)
    }

    /// What the runs have in common; its seed is that of none in particular.
    pub fn shared(&self) -> &Experiment {
        &self.shared
    }

    /// The seeds, in the order in which they run.
    pub fn seeds(&self) -> Vec<u64> {
        self.runs.iter().map(|run| run.seed).collect()
    }

    /// Whether the data can be read and the runs wired up; asked before a folder is made.
    pub fn check(&self, data: &mut SeriesData, observer: &dyn Observer) -> Result<(), StudyError> {
        if let Some(run) = self.runs.first() {
            run.experiment.plan_on(data.of(&run.experiment, observer)?)?;
        }
        Ok(())
    }

    /// Runs what a folder does not hold yet; `false` if it was interrupted.
    pub fn run(
        &self,
        folder: &Path,
        data: &mut SeriesData,
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<bool, StudyError> {
        let _lock = files::lock(folder)?;
        if self.finished(folder)? == self.runs.len() {
            return Err(RuntimeError::Complete { path: folder.into() }.into());
        }
        for run in &self.runs {
            if !run.run(&folder.join(name(run.seed)), data, observer, stop)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How many seeds are finished.
    pub fn finished(&self, folder: &Path) -> Result<usize, StudyError> {
        let mut finished = 0;
        for run in &self.runs {
            finished += usize::from(run.is_finished(&folder.join(name(run.seed)))?);
        }
        Ok(finished)
    }
}

/// Data that the runs of a series share.
#[derive(Default)]
pub struct SeriesData(SharedData);

impl SeriesData {
    fn of(
        &mut self,
        experiment: &Experiment,
        observer: &dyn Observer,
    ) -> Result<formant_data::Federation, StudyError> {
        self.0.federation_with(experiment, &mut |done, total| observer.data_read(done, total))
    }
}

impl SeedRun {
    fn is_finished(&self, folder: &Path) -> Result<bool, StudyError> {
        let checkpoint = Checkpoint::read(folder)?;
        let (methods, rounds) = (self.experiment.methods.len(), self.experiment.rounds);
        Ok(checkpoint.is_some_and(|at| at.is_complete(methods, rounds)))
    }

    /// Begins or goes on; `false` if it was interrupted.
    fn run(
        &self,
        folder: &Path,
        data: &mut SeriesData,
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<bool, StudyError> {
        if self.is_finished(folder)? {
            // The folder's experiment may have changed since, and the other seeds would be another one's.
            let log = RunLog::skim(&folder.join(EVENTS_FILE))?;
            let now = serde_json::to_value(self.experiment.to_table())?;
            check_experiment(&log.started.config, &now, folder)?;
            observer.run_found();
            return Ok(true);
        }
        if stop.load(std::sync::atomic::Ordering::SeqCst) {
            return Ok(false);
        }
        let plan = self.experiment.plan_on(data.of(&self.experiment, observer)?)?;
        files::create_folder(folder)?;
        // The series says what its runs are, also when they are to have more than they had.
        write_experiment(folder, &self.experiment)?;
        let watcher = observer.run_started(&plan);
        if sim::extend(&plan, folder, &*watcher, stop)? == Outcome::Interrupted {
            return Ok(false);
        }
        formant_report::write_reports(folder)?;
        Ok(true)
    }
}

/// The folder of one seed.
fn name(seed: u64) -> String {
    format!("seed-{seed}")
}

/// The run folders of a series that have begun, in the order of their seeds.
pub fn series_folders(folder: &Path) -> Result<Vec<PathBuf>, StudyError> {
    let folders = seeds_of(folder)?.into_iter().map(|seed| folder.join(name(seed)));
    Ok(folders.filter(|folder| folder.join(EVENTS_FILE).is_file()).collect())
}

/// The folders of single runs among some that are named: those of a series are its seeds'.
pub fn run_folders(named: &[PathBuf]) -> Result<Vec<PathBuf>, StudyError> {
    let mut folders = Vec::new();
    for folder in named {
        if !Series::is_one(folder) {
            folders.push(folder.clone());
            continue;
        }
        let seeds = series_folders(folder)?;
        if seeds.is_empty() {
            return Err(StudyError::NotBegun { folder: folder.clone() });
        }
        folders.extend(seeds);
    }
    Ok(folders)
}

/// The logs of a series, and how many seeds it is to have.
pub fn series_logs(folder: &Path) -> Result<(Vec<RunLog>, usize), StudyError> {
    let planned = seeds_of(folder)?.len();
    let folders = series_folders(folder)?;
    let logs = folders.iter().map(|folder| RunLog::read(&folder.join(EVENTS_FILE)));
    Ok((logs.collect::<Result<_, _>>()?, planned))
}

/// The seeds that a folder's `series.json` names.
pub(crate) fn seeds_of(folder: &Path) -> Result<Vec<u64>, StudyError> {
    let path = folder.join(SERIES_FILE);
    let bytes = files::read(&path)?;
    let damaged = |found: String| StudyError::BadSeries { path: path.clone(), found };
    let manifest: Manifest =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    match verify(&bytes, Check::default()) {
        Err(Broken::Missing) if manifest.format == 1 => {}
        checked => drop(checked.map_err(|broken| damaged(broken.to_string()))?),
    }
    if !(1..=FORMAT).contains(&manifest.format) {
        return Err(damaged(format!(
            "format {} where this version reads {FORMAT}",
            manifest.format
        )));
    }
    if manifest.seeds.is_empty() {
        return Err(damaged("it names no seed".to_owned()));
    }
    Ok(manifest.seeds)
}

fn write_experiment(folder: &Path, experiment: &Experiment) -> Result<(), StudyError> {
    let kept = experiment.to_kept();
    Ok(files::write(&folder.join(EXPERIMENT_FILE), kept.as_bytes(), Synced::Content)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_number_or_a_list() {
        assert_eq!(Seeds::parse("3").unwrap().from(7).unwrap(), [7, 8, 9]);
        assert_eq!(Seeds::parse("1, 2,7").unwrap().from(7).unwrap(), [1, 2, 7]);
        for wrong in ["0", "-1", "", "1,", "1,x", "1,2,1", "1.5", "1001", "9223372036854775808,1"] {
            let error = Seeds::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("--seeds") && error.contains("\nhint: "), "{wrong}: {error}");
        }
        assert!(Seeds::Count(2).from(i64::MAX as u64).is_err());
    }
}
