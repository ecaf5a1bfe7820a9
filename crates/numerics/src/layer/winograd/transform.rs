//! The one-dimensional transforms of Winograd's minimal filtering, eight lanes at a time.
//!
//! Six points `0, ±a, ±b, ∞` give six products for `m` outputs of an `r`-tap filter, `m + r = 7`:
//! `Y = Aᵀ[(G g) ⊙ (Bᵀ d)]`. In two dimensions each transform runs over rows and columns.
//!
//! The points are `a = 2/3`, `b = 3/2`. With the usual `1` and `2` the rounding error is twice as
//! large: these two keep the powers in `G` and `Aᵀ` near one, and `ab = 1` saves a product.

#![expect(
    clippy::inline_always,
    reason = "bodies must land inside a caller that has AVX2 switched on"
)]

use crate::gemm::Lanes;

/// Products of one axis.
pub(super) const POINTS: usize = 6;

const A: f32 = 2.0 / 3.0;
const B: f32 = 1.5;
const A2: f32 = 4.0 / 9.0;
const B2: f32 = 2.25;
/// `a² + b²`.
const S: f32 = 97.0 / 36.0;
/// `1 / (2a²(a² − b²))` and `1 / (2b²(b² − a²))`: the scale of `G` at `±a` and `±b`; `1` at `0`.
const GA: f32 = (1.0 / (2.0 * (4.0 / 9.0) * (4.0 / 9.0 - 9.0 / 4.0))) as f32;
const GB: f32 = (1.0 / (2.0 * (9.0 / 4.0) * (9.0 / 4.0 - 4.0 / 9.0))) as f32;

/// `Bᵀ d`.
#[inline(always)]
pub(super) fn input<L: Lanes>(d: [L; 6]) -> [L; 6] {
    let (ea, oa) = (d[2].mul_add(-B2, d[4]), d[1].mul_add(-B2, d[3]));
    let (eb, ob) = (d[2].mul_add(-A2, d[4]), d[1].mul_add(-A2, d[3]));
    [
        d[2].mul_add(-S, d[0]).add(d[4]),
        oa.mul_add(A, ea),
        oa.mul_add(-A, ea),
        ob.mul_add(B, eb),
        ob.mul_add(-B, eb),
        d[3].mul_add(-S, d[1]).add(d[5]),
    ]
}

/// `B v`, the adjoint of [`input`].
#[inline(always)]
pub(super) fn input_adjoint<L: Lanes>(v: [L; 6]) -> [L; 6] {
    let (ea, oa) = (v[1].add(v[2]), v[1].sub(v[2]).mul(A));
    let (eb, ob) = (v[3].add(v[4]), v[3].sub(v[4]).mul(B));
    [
        v[0],
        oa.mul_add(-B2, ob.mul_add(-A2, v[5])),
        v[0].mul_add(-S, ea.mul_add(-B2, eb.mul(-A2))),
        v[5].mul_add(-S, oa.add(ob)),
        v[0].add(ea.add(eb)),
        v[5],
    ]
}

/// `Aᵀ m`, `M` outputs.
#[inline(always)]
pub(super) fn output<L: Lanes, const M: usize>(m: [L; 6]) -> [L; M] {
    let (ea, oa) = (m[1].add(m[2]), m[1].sub(m[2]));
    let (eb, ob) = (m[3].add(m[4]), m[3].sub(m[4]));
    let mut y = [L::splat(0.0); M];
    let (mut pa, mut pb) = (1.0, 1.0);
    for (i, y) in y.iter_mut().enumerate() {
        let (xa, xb) = if i % 2 == 0 { (ea, eb) } else { (oa, ob) };
        *y = if i == 0 { xa.add(xb) } else { xa.mul_add(pa, xb.mul(pb)) };
        pa *= A;
        pb *= B;
    }
    y[0] = y[0].add(m[0]);
    y[M - 1] = y[M - 1].add(m[5]);
    y
}

/// `A y`, the adjoint of [`output`].
#[inline(always)]
pub(super) fn output_adjoint<L: Lanes, const M: usize>(y: [L; M]) -> [L; 6] {
    let ((ea, oa), (eb, ob)) = (even_odd(&y, A), even_odd(&y, B));
    [y[0], ea.add(oa), ea.sub(oa), eb.add(ob), eb.sub(ob), y[M - 1]]
}

/// `G g`, an `R`-tap filter.
#[inline(always)]
pub(super) fn filter<L: Lanes, const R: usize>(g: [L; R]) -> [L; 6] {
    let [first, a, minus_a, b, minus_b, last] = output_adjoint(g);
    [first, a.mul(GA), minus_a.mul(GA), b.mul(GB), minus_b.mul(GB), last]
}

/// `Gᵀ u`, the adjoint of [`filter`].
#[inline(always)]
pub(super) fn filter_adjoint<L: Lanes, const R: usize>(u: [L; 6]) -> [L; R] {
    output([u[0], u[1].mul(GA), u[2].mul(GA), u[3].mul(GB), u[4].mul(GB), u[5]])
}

/// `Σ_i p^i y_i` over even and over odd `i`.
#[inline(always)]
fn even_odd<L: Lanes, const M: usize>(y: &[L; M], p: f32) -> (L, L) {
    let (mut even, mut odd) = (y[0], y[1].mul(p));
    let mut power = p;
    for (i, y) in y.iter().enumerate().skip(2) {
        power *= p;
        if i % 2 == 0 {
            even = y.mul_add(power, even);
        } else {
            odd = y.mul_add(power, odd);
        }
    }
    (even, odd)
}
