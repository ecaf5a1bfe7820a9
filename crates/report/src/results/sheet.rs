//! Results for spreadsheets: a line for each figure.

use super::Results;
use super::groups::Pick;
use super::tables::newcomers::{WAYS, joined};
use crate::Spread;
use formant_runtime::event::Approach;
use std::fmt::Write as _;

const FIGURES: [(&str, Pick); 5] = [
    ("gm_best", |scores| scores.gm_best),
    ("gm_last", |scores| scores.gm_last),
    ("pm_best", |scores| scores.pm_best),
    ("pm_last", |scores| scores.pm_last),
    ("worst_last", |scores| scores.worst_last),
];

/// Every figure with its mean, deviation and number of seeds, and the paper's beside it, as
/// comma-separated values; accuracies in percent, times in seconds.
pub fn csv(results: &Results) -> String {
    let mut text = String::from(
        "name,scale,cell,method,figure,mean,deviation,seeds,paper,paper_deviation,difference\n",
    );
    let number =
        |x: Option<f64>| x.map_or(String::new(), |x| format!("{}", (x * 1e5).round() / 1e5));
    for cell in results.cells() {
        for line in &cell.lines {
            let begin = [&*results.name, &*results.scale, &*cell.name, line.method].map(quoted);
            let begin = begin.join(",");
            let seeds = line.runs.len();
            for (name, pick) in FIGURES {
                let Spread { mean, deviation } = line.spread(pick);
                if mean.is_none() {
                    continue;
                }
                let percent = |x: Option<f64>| x.map(|x| x * 100.0);
                let (mean, deviation) = (percent(mean), percent(deviation));
                let measure = name.strip_suffix("_best").unwrap_or_default();
                let paper = results.published(line.method, &cell.name, measure);
                let figures = [
                    mean,
                    deviation,
                    Some(seeds as f64),
                    paper.map(|paper| paper.mean),
                    paper.and_then(|paper| paper.deviation),
                    mean.zip(paper).map(|(mean, paper)| mean - paper.mean),
                ];
                let _ = writeln!(text, "{begin},{name},{}", figures.map(number).join(","));
            }
            for way in WAYS {
                let found = || line.runs.iter().filter_map(|run| joined(run, way));
                let word = if way == Approach::Own { "own_rule" } else { "fine_tuning" };
                for epoch in 0..found().map(|joined| joined.epochs.len()).min().unwrap_or(0) {
                    let figures = found().map(|joined| Some(joined.epochs[epoch] * 100.0));
                    let figures: Vec<Option<f64>> = figures.collect();
                    let Spread { mean, deviation } = Spread::of(&figures);
                    let all = [mean, deviation, Some(figures.len() as f64), None, None, None];
                    let all = all.map(number).join(",");
                    let _ = writeln!(text, "{begin},newcomers_{word}_{epoch},{all}");
                }
            }
            let times = line.runs.iter().map(|run| Some(run.seconds)).collect::<Vec<_>>();
            let Spread { mean, deviation } = Spread::of(&times);
            let figures = [mean, deviation, Some(seeds as f64), None, None, None];
            let _ = writeln!(text, "{begin},wall_seconds,{}", figures.map(number).join(","));
        }
    }
    for run in &results.runs {
        let Some(steps) = &run.steps else { continue };
        let begin = [&*results.name, &*results.scale, &*steps.network, &*run.method].map(quoted);
        let of = [
            ("plain_seconds_per_sample", Some(steps.plain)),
            ("shared_seconds_per_sample", steps.shared),
            ("personal_seconds_per_sample", steps.personal),
        ];
        for (name, value) in of.into_iter().filter_map(|(name, x)| Some((name, x?))) {
            let _ = writeln!(text, "{},{name},{value:e},,1,,,", begin.join(","));
        }
    }
    text
}

/// A field in which commas and quotes are text.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
