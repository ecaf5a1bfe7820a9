//! Writes a table like those that hospitals keep: `cargo run -p formant-data --example make_table -- FILE [ROWS]`.
//!
//! Whether a patient comes back within 30 days, in 40 hospitals: of different sizes, with different shares of
//! patients that come back, with instruments that are off in their own way, and with rules that differ
//! somewhat between small and large hospitals. Numbers, categories and values that are missing. The same
//! bytes every time.

use formant_numerics::{Rng, Stream};
use std::fs::File;
use std::io::{BufWriter, Write};

const HOSPITALS: usize = 40;
const ROWS: usize = 50_000;
const WARDS: [&str; 6] =
    ["cardiology", "general", "geriatrics", "neurology", "oncology", "surgery"];
const ADMISSIONS: [&str; 3] = ["elective", "emergency", "transfer"];
const INSURERS: [&str; 4] = ["none", "private", "public", "veterans"];
/// How much each ward, admission and insurer matters.
const OF_WARD: [f64; 6] = [0.5, -0.4, 0.8, 0.1, 0.6, -0.6];
const OF_ADMISSION: [f64; 3] = [-0.6, 0.5, 0.2];
const OF_INSURER: [f64; 4] = [0.5, -0.3, 0.1, 0.0];

/// What is particular about a hospital.
struct Hospital {
    name: String,
    /// How many patients it has, in relation to the others.
    size: f64,
    /// How ready its patients are to come back.
    bias: f64,
    /// Of its laboratory: what it adds, and what it multiplies by.
    shift: f64,
    scale: f64,
    wards: Vec<f64>,
    /// The share of laboratory values that nobody measured.
    missing: f64,
    /// How much age counts there.
    of_age: f64,
}

fn hospitals() -> Vec<Hospital> {
    let mut rng = Rng::new(40, Stream::Test, 0, 0);
    let mut hospitals = Vec::new();
    for nth in 0..HOSPITALS {
        let size = libm::exp(0.9 * rng.normal());
        hospitals.push(Hospital {
            name: format!("hospital-{:02}", nth + 1),
            size,
            bias: 1.1 * rng.normal(),
            shift: 0.6 * rng.normal(),
            scale: libm::exp(0.25 * rng.normal()),
            wards: rng.dirichlet(0.7, WARDS.len()),
            missing: 0.02 + 0.25 * rng.uniform() * rng.uniform(),
            of_age: if size < 1.0 { 0.9 } else { 0.3 },
        });
    }
    hospitals
}

/// An index that is drawn with these weights.
fn drawn(rng: &mut Rng, weights: impl Iterator<Item = f64> + Clone) -> usize {
    let mut left = rng.uniform() * weights.clone().sum::<f64>();
    let mut last = 0;
    for (nth, weight) in weights.enumerate() {
        last = nth;
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    last
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: make_table FILE [ROWS]";
    let path = arguments.next().ok_or(usage)?;
    let rows = arguments.next().map_or(Ok(ROWS), |rows| rows.parse().map_err(|_| usage))?;
    let mut out = BufWriter::new(File::create(path)?);
    let hospitals = hospitals();
    writeln!(
        out,
        "patient,hospital,age,sex,ward,admission,insurer,days,medicines,visits,creatinine,haemoglobin,sodium,glucose,pressure,readmitted"
    )?;
    let mut rng = Rng::new(40, Stream::Test, 1, 0);
    for patient in 1..=rows {
        let at = &hospitals[drawn(&mut rng, hospitals.iter().map(|hospital| hospital.size))];
        let age = (62.0 + 17.0 * rng.normal()).clamp(18.0, 100.0);
        let female = rng.uniform() < 0.52;
        let ward = drawn(&mut rng, at.wards.iter().copied());
        let admission = drawn(&mut rng, [0.35, 0.55, 0.1].into_iter());
        let insurer = drawn(&mut rng, [0.08, 0.3, 0.55, 0.07].into_iter());
        // How ill somebody is shows in everything that is measured.
        let illness = rng.normal();
        let days = libm::exp(1.2 + 0.4 * illness + 0.5 * rng.normal()).clamp(1.0, 90.0).round();
        let medicines = (7.0 + 3.0 * illness + 2.5 * rng.normal()).clamp(0.0, 30.0).round();
        let visits = libm::exp(0.2 + 0.6 * illness + 0.6 * rng.normal()).min(40.0).floor();
        let mut measured = |mean: f64, deviation: f64, slope: f64, digits: usize| {
            let own = slope * illness + libm::sqrt(1.0 - slope * slope) * rng.normal();
            let value = mean + deviation * (at.shift + at.scale * own);
            let is_missing = rng.uniform() < at.missing;
            if is_missing { String::new() } else { format!("{value:.digits$}") }
        };
        let creatinine = measured(1.1, 0.35, 0.5, 2);
        let haemoglobin = measured(12.8, 1.7, -0.5, 1);
        let sodium = measured(138.5, 3.6, -0.3, 0);
        let glucose = measured(124.0, 38.0, 0.35, 0);
        let pressure = measured(131.0, 19.0, 0.1, 0);
        let score = at.bias - 0.9
            + 1.1 * illness
            + at.of_age * (age - 62.0) / 17.0
            + OF_WARD[ward]
            + OF_ADMISSION[admission]
            + OF_INSURER[insurer];
        let readmitted = rng.uniform() < 1.0 / (1.0 + libm::exp(-score));
        let sex = if rng.uniform() < 0.01 {
            "NA"
        } else if female {
            "f"
        } else {
            "m"
        };
        writeln!(
            out,
            "P{patient:06},{},{age:.0},{sex},{},{},{},{days},{medicines},{visits},{creatinine},{haemoglobin},{sodium},{glucose},{pressure},{}",
            at.name,
            WARDS[ward],
            ADMISSIONS[admission],
            INSURERS[insurer],
            if readmitted { "yes" } else { "no" }
        )?;
    }
    out.flush()?;
    Ok(())
}
