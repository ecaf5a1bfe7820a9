//! Shapes that tell lines apart without colour.

/// The outline of a marker of about `size` pixels in each direction around a place: eight shapes, one for
/// each colour.
pub(crate) fn marker(slot: usize, (x, y): (f64, f64), size: f64) -> String {
    let relative = |points: &[(f64, f64)]| {
        let corners = points.iter().enumerate().map(|(place, (dx, dy))| {
            let stroke = if place == 0 { 'M' } else { 'L' };
            format!("{stroke}{:.1} {:.1}", x + dx * size, y + dy * size)
        });
        corners.collect::<String>() + "z"
    };
    match slot % super::COLOURS {
        0 => {
            let (left, r) = (x - 0.9 * size, 0.9 * size);
            let d = 2.0 * r;
            format!("M{left:.1} {y:.1}a{r:.1} {r:.1} 0 1 0 {d:.1} 0a{r:.1} {r:.1} 0 1 0 -{d:.1} 0z")
        }
        1 => relative(&[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)]),
        2 => relative(&[(0.0, -1.05), (1.0, 0.8), (-1.0, 0.8)]),
        3 => relative(&[(0.0, -1.2), (1.0, 0.0), (0.0, 1.2), (-1.0, 0.0)]),
        4 => relative(&[(0.0, 1.05), (1.0, -0.8), (-1.0, -0.8)]),
        5 => relative(&[(-1.0, -0.35), (1.0, -0.35), (1.0, 0.35), (-1.0, 0.35)]),
        6 => relative(&[(-0.35, -1.1), (0.35, -1.1), (0.35, 1.1), (-0.35, 1.1)]),
        _ => relative(&[(0.0, -1.1), (1.05, -0.3), (0.65, 0.95), (-0.65, 0.95), (-1.05, -0.3)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_colour_has_a_shape_of_its_own() {
        let shapes: BTreeSet<_> = (0..8).map(|slot| marker(slot, (50.0, 50.0), 3.0)).collect();
        assert_eq!(shapes.len(), 8);
    }
}
