//! `formant spectra`.

use crate::args::spectra::{Kind, Measure, SpectraArgs};
use crate::output::{markdown_table, note, print, print_json};
use formant_numerics::{Agreement, SpectrumKind};
use formant_study::{Control, Figures, Looked, MethodModels, Side, SpectraEffort};
use std::fmt::Write as _;
use std::process::ExitCode;

pub(crate) fn spectra(args: &SpectraArgs) -> anyhow::Result<ExitCode> {
    let effort = SpectraEffort {
        clients: args.clients as usize,
        orders: args.orders as usize,
        bands: args.bands as usize,
    };
    let models = MethodModels::of_run(&args.run_dir, args.method.as_deref(), &effort)?;
    let kinds: Vec<SpectrumKind> = match args.kinds.as_slice() {
        [] => SpectrumKind::ALL.to_vec(),
        some => some.iter().map(|kind| (*kind).into()).collect(),
    };
    let mut found = Vec::new();
    for models in &models {
        for kind in &kinds {
            note!("looking at {}, {}", models.label(), kind.name());
            found.push(models.look(*kind, &effort));
        }
    }
    if args.json {
        print_json(&found)?;
    } else {
        let pages: Vec<String> =
            found.iter().map(|looked| page(looked, args.measure)).collect::<Result<_, _>>()?;
        print(&pages.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A table: a band by row, and what it is compared with by column.
fn page(looked: &Looked, measure: Measure) -> Result<String, std::fmt::Error> {
    let Looked { method, network, dataset, round, clients, kind, moved, .. } = looked;
    let mut text = String::new();
    writeln!(
        text,
        "{method}, {network} on {dataset}, round {round}, {clients} clients; spectrum {}, {}; matching moves {:.1} % of the units\n",
        kind.name(),
        measure.said(),
        100.0 * moved
    )?;
    let columns: [(&str, &Side, Control); 9] = [
        ("weights PM–GM", &looked.weights, Control::Observed),
        ("random bands", &looked.weights, Control::RandomBands),
        ("updates PM–GM", &looked.updates, Control::Observed),
        ("random bands", &looked.updates, Control::RandomBands),
        ("units alike", &looked.updates, Control::UnitsAlike),
        ("units of one", &looked.updates, Control::UnitsOfOne),
        ("parameters", &looked.updates, Control::Coordinates),
        ("matched", &looked.updates, Control::Aligned),
        ("updates PM–PM", &looked.peers, Control::Observed),
    ];
    let mut header = vec!["band".to_owned(), "energy".to_owned()];
    header.extend(columns.iter().map(|(name, ..)| (*name).to_owned()));
    let mut rows = vec![header];
    let observed = looked.updates.under(Control::Observed);
    let bands = observed.map_or(0, |seen| seen.bands.len());
    for band in 0..=bands {
        let name = if band < bands { Looked::band(band) } else { "all".into() };
        let cell = |side: &Side, control: Control, write: &dyn Fn(&Figures) -> String| {
            let seen = side.under(control);
            seen.map_or("–".into(), |seen| write(seen.bands.get(band).unwrap_or(&seen.all)))
        };
        let energy = cell(&looked.updates, Control::Observed, &|f| format!("{:.2}", f.mean.energy));
        let mut row = vec![name, energy];
        row.extend(columns.iter().map(|(_, side, control)| {
            cell(side, *control, &|figures| measure.written(figures, *control))
        }));
        rows.push(row);
    }
    text.push_str(&markdown_table(&rows));
    Ok(text)
}

impl Measure {
    fn said(self) -> &'static str {
        match self {
            Self::Cosine => "cosine",
            Self::Distance => "squared distance over the GM's norm",
            Self::Magnitudes => "correlation of log-magnitudes",
            Self::Divergence => "KL divergence of magnitudes",
        }
    }

    fn of(self, agreement: &Agreement) -> f64 {
        match self {
            Self::Cosine => agreement.cosine,
            Self::Distance => agreement.distance,
            Self::Magnitudes => agreement.magnitudes,
            Self::Divergence => agreement.divergence,
        }
    }

    /// Over clients with its error, over draws with its range.
    fn written(self, figures: &Figures, control: Control) -> String {
        let (mean, low, high) =
            (self.of(&figures.mean), self.of(&figures.low), self.of(&figures.high));
        if !mean.is_finite() {
            return "–".into();
        }
        match control {
            Control::Observed | Control::Aligned => format!("{mean:.3} ± {:.3}", high - mean),
            _ => format!("{low:.3} to {high:.3}"),
        }
    }
}

impl From<Kind> for SpectrumKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Flat => Self::Flat,
            Kind::PerLayer => Self::PerLayer,
            Kind::TwoD => Self::TwoD,
            Kind::Kernel => Self::Kernel,
            Kind::Singular => Self::Singular,
        }
    }
}
