//! What low frequencies must be better than, if they are more than an order of storage.

use super::SpectraEffort;
use super::figures::{Figures, Seen, Side, mean};
use formant_numerics::{
    Agreement, AgreementLens, Bands, Rng, SpectrumKind, Stream, Tape, UnitOrder, Units,
};
use serde::Serialize;

/// How two models are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// As they are.
    Observed,
    /// In bands of the same size, of frequencies drawn at random.
    RandomBands,
    /// With hidden units in another order, the same one in both models: they compute the same as before, and
    /// what is low is another thing. What does not survive is an order of storage.
    UnitsAlike,
    /// With hidden units of one of them in another order: units no longer belong together.
    UnitsOfOne,
    /// With all parameters in another order, the same one in both.
    Coordinates,
    /// After the student's units were matched with the teacher's.
    Aligned,
}

/// Compares models of one network in one kind of spectrum.
pub(super) struct Rivals {
    lens: AgreementLens,
    kind: SpectrumKind,
    units: Units,
    random_bands: Vec<Bands>,
    unit_orders: Vec<UnitOrder>,
    coordinate_orders: Vec<Vec<u32>>,
}

/// Student and teacher.
type Pair = (Vec<f32>, Vec<f32>);

impl Rivals {
    pub(super) fn new(
        network: &Tape,
        kind: SpectrumKind,
        effort: &SpectraEffort,
        seed: u64,
    ) -> Self {
        let (layout, units) = (network.layout(), network.units());
        let lens = AgreementLens::new(layout, kind);
        // The address of resampled scores: nothing here goes into them.
        let rng = |of: u64| Rng::new(seed, Stream::Resampling, u64::MAX, of);
        let (mut bands, mut orders, mut coordinates) = (rng(0), rng(1), rng(2));
        Self {
            random_bands: (0..effort.bands).map(|_| lens.random_bands(&mut bands)).collect(),
            unit_orders: (0..effort.orders).map(|_| units.shuffled(&mut orders)).collect(),
            coordinate_orders: (0..effort.orders)
                .map(|_| {
                    let mut order: Vec<u32> = (0..layout.parameters() as u32).collect();
                    coordinates.shuffle(&mut order);
                    order
                })
                .collect(),
            lens,
            kind,
            units,
        }
    }

    /// All controls for some pairs; aligned only where orders of the students' units are given.
    pub(super) fn all(&self, pairs: &[Pair], aligned: Option<&[UnitOrder]>) -> Side {
        let bands = self.lens.bands();
        let observed: Vec<_> = pairs.iter().map(|(a, b)| self.lens.pair(a, b)).collect();
        let found = observed.iter().map(|pair| flat(pair.by(&bands))).collect::<Vec<_>>();
        let mut side = vec![seen(Control::Observed, &found, Figures::of_clients)];
        let draws = self
            .random_bands
            .iter()
            .map(|bands| means(observed.iter().map(|pair| flat(pair.by(bands)))));
        side.push(seen(Control::RandomBands, &draws.collect::<Vec<_>>(), Figures::of_draws));
        let reordered = |order: &UnitOrder, w: &[f32]| self.units.reordered(order, w);
        let over = |change: &dyn Fn(&[f32], &[f32]) -> Pair| {
            means(pairs.iter().map(|(a, b)| {
                let (a, b) = change(a, b);
                flat(self.lens.pair(&a, &b).by(&bands))
            }))
        };
        // Singular values do not see an order of units.
        if self.kind != SpectrumKind::Singular {
            let draws = self
                .unit_orders
                .iter()
                .map(|order| over(&|a, b| (reordered(order, a), reordered(order, b))));
            side.push(seen(Control::UnitsAlike, &draws.collect::<Vec<_>>(), Figures::of_draws));
        }
        let draws =
            self.unit_orders.iter().map(|order| over(&|a, b| (reordered(order, a), b.to_vec())));
        side.push(seen(Control::UnitsOfOne, &draws.collect::<Vec<_>>(), Figures::of_draws));
        let draws = self.coordinate_orders.iter().map(|order| {
            let put = |w: &[f32]| order.iter().map(|i| w[*i as usize]).collect::<Vec<f32>>();
            over(&|a, b| (put(a), put(b)))
        });
        side.push(seen(Control::Coordinates, &draws.collect::<Vec<_>>(), Figures::of_draws));
        if let Some(orders) = aligned {
            let found = pairs
                .iter()
                .zip(orders)
                .map(|((a, b), order)| flat(self.lens.pair(&reordered(order, a), b).by(&bands)));
            let found = found.collect::<Vec<_>>();
            side.push(seen(Control::Aligned, &found, Figures::of_clients));
        }
        Side(side)
    }
}

/// Bands, and behind them all.
fn flat((mut bands, all): (Vec<Agreement>, Agreement)) -> Vec<Agreement> {
    bands.push(all);
    bands
}

/// Band by band over some pairs.
fn means(pairs: impl Iterator<Item = Vec<Agreement>>) -> Vec<Agreement> {
    by_band(&pairs.collect::<Vec<_>>()).map(|band| mean(&band)).collect()
}

fn by_band(all: &[Vec<Agreement>]) -> impl Iterator<Item = Vec<Agreement>> {
    let bands = all.first().map_or(0, Vec::len);
    (0..bands).map(|band| all.iter().map(|one| one[band]).collect())
}

fn seen(control: Control, all: &[Vec<Agreement>], figures: fn(&[Agreement]) -> Figures) -> Seen {
    let mut bands: Vec<Figures> = by_band(all).map(|band| figures(&band)).collect();
    let none = Figures::of_draws(&[]);
    let all = bands.pop().unwrap_or(none);
    Seen { control, bands, all }
}
