-- A proof of each goal of bench/bank.jsonl, in its order: how it is known that they are true.

theorem reverse_a_triple : ∀ p q r : Prop, (p ∧ q) ∧ r → r ∧ q ∧ p := by
  grind

theorem either_way_it_follows : ∀ p q r : Prop, ((p → q) → r) → (p → r) → r := by
  intro p q r h k
  by_cases hp : p
  · exact k hp
  · exact h (fun x => absurd x hp)

theorem equivalence_is_associative : ∀ p q r : Prop, ((p ↔ q) ↔ r) ↔ (p ↔ (q ↔ r)) := by
  intro p q r
  by_cases p <;> by_cases q <;> by_cases r <;> simp_all

theorem knight_and_knave : ∀ a b : Prop, (a ↔ ¬b) → (b ↔ (a ↔ b)) → a ∧ ¬b := by
  grind

theorem majority_by_two_roads : ∀ p q r : Prop, (p ∧ q ∨ q ∧ r ∨ r ∧ p) ↔ (p ∨ q) ∧ (q ∨ r) ∧ (r ∨ p) := by
  intro p q r
  by_cases p <;> by_cases q <;> by_cases r <;> simp_all

theorem someone_else_then : ∀ (α : Type) (p q : α → Prop), (∃ x, p x ∨ q x) → ¬(∃ x, p x) → ∃ x, q x := by
  grind

theorem one_pair_rules_all : ∀ (α : Type) (a : α) (R : α → α → Prop), ∃ x y, R x y → ∀ u v, R u v := by
  intro α a R
  by_cases h : ∀ u v, R u v
  · exact ⟨a, a, fun _ => h⟩
  · have ⟨u, hu⟩ := Classical.not_forall.mp h
    have ⟨v, hv⟩ := Classical.not_forall.mp hu
    exact ⟨u, v, fun k => absurd k hv⟩

theorem symmetric_transitive_related_is_reflexive : ∀ (α : Type) (r : α → α → Prop), (∀ a b, r a b → r b a) → (∀ a b c, r a b → r b c → r a c) → (∀ a, ∃ b, r a b) → ∀ a, r a a := by
  intro α r s t e a
  have ⟨b, h⟩ := e a
  exact t a b a h (s a b h)

theorem choose_a_function : ∀ (α β : Type) (R : α → β → Prop), (∀ x, ∃ y, R x y) → ∃ f : α → β, ∀ x, R x (f x) := by
  intro α β R h
  exact ⟨fun x => (h x).choose, fun x => (h x).choose_spec⟩

theorem no_list_of_all_predicates : ∀ (α : Type) (f : α → α → Prop), ∃ p : α → Prop, ∀ a, f a ≠ p := by
  intro α f
  refine ⟨fun a => ¬f a a, fun a h => ?_⟩
  have k := congrFun h a
  by_cases c : f a a <;> simp_all

theorem loved_by_all_loves_oneself : ∀ (α : Type) (loves : α → α → Prop) (a : α), (∀ x, loves x a) → ∃ x, loves x x := by
  intro α loves a h
  exact ⟨a, h a⟩

theorem minimum_below_everything : ∀ (α : Type) (le : α → α → Prop), (∀ a b, le a b → le b a → a = b) → ∀ x y, (∀ a, le x a) → (∀ a, le y a) → x = y := by
  intro α le anti x y hx hy
  exact anti x y (hx y) (hy x)

theorem swap_exists_forall : ∀ (α β : Type) (R : α → β → Prop), (∃ y, ∀ x, R x y) → ∀ x, ∃ y, R x y := by
  intro α β R ⟨y, h⟩ x
  exact ⟨y, h x⟩

theorem pred_everywhere_or_counterexample : ∀ (α : Type) (P Q : α → Prop), (∀ x, P x ∨ Q x) → (∀ x, P x) ∨ ∃ x, Q x := by
  intro α P Q h
  by_cases k : ∃ x, Q x
  · exact Or.inr k
  · exact Or.inl fun x => (h x).elim id fun q => absurd ⟨x, q⟩ k

theorem steps_of_two_reach_every_even : ∀ P : Nat → Prop, P 0 → (∀ n, P n → P (n + 2)) → ∀ n, P (2 * n) := by
  intro P h0 h n
  induction n with
  | zero => exact h0
  | succ n ih => exact h _ ih

theorem two_stairs_at_a_time : ∀ P : Nat → Prop, P 0 → P 1 → (∀ n, P n → P (n + 1) → P (n + 2)) → ∀ n, P n := by
  intro P h0 h1 h n
  have both : P n ∧ P (n + 1) := by
    induction n with
    | zero => exact ⟨h0, h1⟩
    | succ n ih => exact ⟨ih.2, h n ih.1 ih.2⟩
  exact both.1

theorem counting_down_from_anywhere : ∀ P : Nat → Prop, (∀ n, P (n + 1) → P n) → ∀ k, P k → P 0 := by
  intro P h k
  induction k with
  | zero => exact id
  | succ k ih => exact fun hk => ih (h k hk)

theorem growing_passes_the_index : ∀ f : Nat → Nat, (∀ n, f n < f (n + 1)) → ∀ n, n ≤ f n := by
  intro f h n
  induction n with
  | zero => omega
  | succ n ih => have := h n; omega

theorem growing_step_by_step_grows : ∀ f : Nat → Nat, (∀ n, f n ≤ f (n + 1)) → ∀ m k, f m ≤ f (m + k) := by
  intro f h m k
  induction k with
  | zero => exact Nat.le_refl _
  | succ k ih => exact Nat.le_trans ih (h (m + k))

theorem no_endless_descent : ∀ f : Nat → Nat, (∀ n, f (n + 1) < f n) → False := by
  intro f h
  have all : ∀ n, f n + n ≤ f 0 := by
    intro n
    induction n with
    | zero => omega
    | succ n ih => have := h n; omega
  have := all (f 0 + 1)
  omega

theorem nothing_changes : ∀ f : Nat → Nat, (∀ n, f (n + 1) = f n) → ∀ n, f n = f 0 := by
  intro f h n
  induction n with
  | zero => rfl
  | succ n ih => rw [h, ih]

theorem additive_is_linear : ∀ f : Nat → Nat, (∀ a b, f (a + b) = f a + f b) → ∀ n, f n = n * f 1 := by
  intro f h n
  have h0 : f 0 = 0 := by have := h 0 0; simp at this; exact this
  induction n with
  | zero => simp [h0]
  | succ n ih => rw [h, ih, Nat.succ_mul]

theorem additive_triples : ∀ f : Nat → Nat, (∀ a b, f (a + b) = f a + f b) → f 3 = 3 * f 1 := by
  intro f h
  have h2 := h 1 1
  have h3 := h 2 1
  simp at h2 h3
  omega

theorem doubling_overtakes_counting : ∀ n : Nat, 2 * n ≤ 2 ^ n + 1 := by
  intro n
  induction n with
  | zero => omega
  | succ n ih => rw [Nat.pow_succ]; have := Nat.two_pow_pos n; cases n with
    | zero => decide
    | succ n => rw [Nat.pow_succ] at *; have := Nat.two_pow_pos n; omega

theorem powers_of_two_below_powers_of_three : ∀ n : Nat, 2 ^ n ≤ 3 ^ n := by
  intro n
  exact Nat.pow_le_pow_left (by decide) n

theorem nine_to_any_power_mod_eight : ∀ n : Nat, 9 ^ n % 8 = 1 := by
  intro n
  induction n with
  | zero => rfl
  | succ n ih => rw [Nat.pow_succ]; omega

theorem three_divides_odd_powers_of_two_plus_one : ∀ n : Nat, 3 ∣ 2 ^ (2 * n + 1) + 1 := by
  intro n
  induction n with
  | zero => decide
  | succ n ih => rw [show 2 * (n + 1) + 1 = (2 * n + 1) + 2 by omega, Nat.pow_add]; omega

theorem fifty_seven_divides_two_powers : ∀ n : Nat, 57 ∣ 7 ^ (n + 2) + 8 ^ (2 * n + 1) := by
  intro n
  induction n with
  | zero => decide
  | succ n ih =>
    rw [show 2 * (n + 1) + 1 = (2 * n + 1) + 2 by omega, Nat.pow_add 8, show n + 1 + 2 = n + 2 + 1 by omega, Nat.pow_succ]
    omega

theorem sum_up_to_doubled : ∀ n : Nat, 2 * (List.range (n + 1)).sum = n * (n + 1) := by
  intro n
  induction n with
  | zero => rfl
  | succ n ih => rw [List.range_succ, List.sum_append_nat]; simp; grind

namespace neighbouring_triangles_make_a_square
@[simp] def Coppice.tri : Nat → Nat | 0 => 0 | n + 1 => Coppice.tri n + (n + 1)
theorem neighbouring_triangles_make_a_square : ∀ n, Coppice.tri n + Coppice.tri (n + 1) = (n + 1) * (n + 1) := by
  intro n
  induction n with
  | zero => rfl
  | succ n ih => simp at *; grind
end neighbouring_triangles_make_a_square

namespace sum_of_odds_is_a_square
@[simp, grind =] def Coppice.odds : Nat → Nat | 0 => 0 | n + 1 => Coppice.odds n + (2 * n + 1)
theorem sum_of_odds_is_a_square : ∀ n, Coppice.odds n = n * n := by
  intro n
  induction n with
  | zero => rfl
  | succ n ih => simp [ih]; grind
end sum_of_odds_is_a_square

namespace factorial_beats_powers_of_two
@[simp] def Coppice.fact : Nat → Nat | 0 => 1 | n + 1 => (n + 1) * Coppice.fact n
theorem factorial_beats_powers_of_two : ∀ n, 2 ^ n ≤ Coppice.fact (n + 1) := by
  intro n
  induction n with
  | zero => decide
  | succ n ih =>
    rw [Coppice.fact, Nat.pow_succ, Nat.mul_comm]
    exact Nat.mul_le_mul (by omega) ih
end factorial_beats_powers_of_two

namespace fibonacci_sums
@[simp] def Coppice.fib : Nat → Nat | 0 => 0 | 1 => 1 | n + 2 => Coppice.fib n + Coppice.fib (n + 1)
@[simp] def Coppice.fibs : Nat → Nat | 0 => 0 | n + 1 => Coppice.fibs n + Coppice.fib (n + 1)
theorem fibonacci_sums : ∀ n, Coppice.fibs n + 1 = Coppice.fib (n + 2) := by
  intro n
  induction n with
  | zero => rfl
  | succ n ih => simp at *; omega
end fibonacci_sums

namespace every_third_fibonacci_is_even
def Coppice.fib : Nat → Nat | 0 => 0 | 1 => 1 | n + 2 => Coppice.fib n + Coppice.fib (n + 1)
theorem every_third_fibonacci_is_even : ∀ n, Coppice.fib (3 * n) % 2 = 0 := by
  intro n
  induction n with
  | zero => rfl
  | succ n ih =>
    rw [show 3 * (n + 1) = 3 * n + 1 + 2 by omega, Coppice.fib, Coppice.fib]
    omega
end every_third_fibonacci_is_even

theorem squares_mod_three : ∀ n : Nat, n * n % 3 ≠ 2 := by
  intro n
  have : n % 3 = 0 ∨ n % 3 = 1 ∨ n % 3 = 2 := by omega
  rcases this with h | h | h <;> simp [h, Nat.mul_mod]

theorem fourth_powers_mod_five : ∀ n : Nat, n ^ 4 % 5 = 0 ∨ n ^ 4 % 5 = 1 := by
  intro n
  have : n % 5 = 0 ∨ n % 5 = 1 ∨ n % 5 = 2 ∨ n % 5 = 3 ∨ n % 5 = 4 := by omega
  rcases this with h | h | h | h | h <;> simp [h, Nat.pow_mod]

theorem two_squares_divisible_by_three : ∀ a b : Nat, 3 ∣ a * a + b * b → 3 ∣ a ∧ 3 ∣ b := by
  intro a b h
  have h := Nat.mod_eq_zero_of_dvd h
  have ha : a % 3 = 0 ∨ a % 3 = 1 ∨ a % 3 = 2 := by omega
  have hb : b % 3 = 0 ∨ b % 3 = 1 ∨ b % 3 = 2 := by omega
  rcases ha with x | x | x <;> rcases hb with y | y | y <;> simp [x, y, Nat.add_mod, Nat.mul_mod] at h ⊢ <;> omega

theorem chinese_remainder_by_hand : ∀ n : Nat, n < 105 → n % 3 = 1 → n % 5 = 2 → n % 7 = 3 → n = 52 := by
  omega

theorem halves_up_and_down : ∀ n : Nat, n / 2 + (n + 1) / 2 = n := by
  omega

theorem divide_a_multiple_and_one_more : ∀ a b : Nat, 0 < b → (a * b + b) / b = a + 1 := by
  intro a b h
  rw [← Nat.succ_mul]
  exact Nat.mul_div_cancel _ h

theorem euler_polynomial_starts_prime : ∀ n, n < 12 → ∀ d, d < n * n + n + 41 → 1 < d → ¬d ∣ n * n + n + 41 := by
  decide +kernel

theorem differences_both_zero : ∀ m n : Nat, (m - n) + (n - m) = 0 → m = n := by
  omega

theorem max_times_min : ∀ a b : Nat, max a b * min a b = a * b := by
  intro a b
  rcases Nat.le_total a b with h | h
  · rw [Nat.max_eq_right h, Nat.min_eq_left h, Nat.mul_comm]
  · rw [Nat.max_eq_left h, Nat.min_eq_right h]

theorem product_below_squares : ∀ a b : Nat, a * b ≤ a * a + b * b := by
  intro a b
  rcases Nat.le_total a b with h | h
  · have := Nat.mul_le_mul_right b h
    omega
  · have := Nat.mul_le_mul_left a h
    omega

theorem pair_large_with_large : ∀ a b c d : Nat, a ≤ b → c ≤ d → a * d + b * c ≤ a * c + b * d := by
  intro a b c d h k
  obtain ⟨x, rfl⟩ := Nat.exists_eq_add_of_le h
  obtain ⟨y, rfl⟩ := Nat.exists_eq_add_of_le k
  have : a * c + (a + x) * (c + y) = a * (c + y) + (a + x) * c + x * y := by grind
  omega

theorem equal_squares_equal_sides : ∀ a b : Nat, a * a = b * b → a = b := by
  intro a b h
  rcases Nat.lt_trichotomy a b with k | k | k
  · have := Nat.mul_lt_mul'' k k; omega
  · exact k
  · have := Nat.mul_lt_mul'' k k; omega

theorem no_square_is_twice_a_square : ∀ b a : Nat, a * a = 2 * (b * b) → b = 0 := by
  intro b
  induction b using Nat.strongRecOn with
  | _ b ih =>
    intro a h
    have even : ∀ x : Nat, x * x % 2 = 0 → ∃ y, x = 2 * y := by
      intro x hx
      have : x % 2 = 0 ∨ x % 2 = 1 := by omega
      rcases this with k | k
      · exact ⟨x / 2, by omega⟩
      · simp [Nat.mul_mod, k] at hx
    obtain ⟨c, rfl⟩ := even a (by omega)
    have hb : b * b = 2 * (c * c) := by grind
    obtain ⟨d, rfl⟩ := even b (by omega)
    have hc : c * c = 2 * (d * d) := by grind
    by_cases z : d = 0
    · omega
    · have := ih d (by omega) c hc
      omega

theorem square_minus_itself : ∀ n : Nat, n * n - n = n * (n - 1) := by
  intro n
  rw [Nat.mul_sub, Nat.mul_one]

theorem product_of_positives_beats_the_sum : ∀ a b : Nat, 2 ≤ a → 2 ≤ b → a + b ≤ a * b := by
  intro a b h k
  obtain ⟨x, rfl⟩ := Nat.exists_eq_add_of_le h
  obtain ⟨y, rfl⟩ := Nat.exists_eq_add_of_le k
  have : (2 + x) * (2 + y) = 4 + 2 * x + 2 * y + x * y := by grind
  omega

theorem stamps_of_three_and_five : ∀ n : Nat, ∃ a b, n + 8 = 3 * a + 5 * b := by
  intro n
  have : n % 3 = 0 ∨ n % 3 = 1 ∨ n % 3 = 2 := by omega
  rcases this with h | h | h
  · exact ⟨n / 3 + 1, 1, by omega⟩
  · exact ⟨(n + 8) / 3, 0, by omega⟩
  · exact ⟨n / 3, 2, by omega⟩

theorem sixty_five_as_two_squares : ∃ x y : Nat, x * x + y * y = 65 ∧ x < y ∧ 1 < x := by
  exact ⟨4, 7, by decide⟩

theorem a_common_multiple_exists : ∀ m n : Nat, ∃ k, m ∣ k ∧ n ∣ k := by
  intro m n
  exact ⟨m * n, Nat.dvd_mul_right m n, Nat.dvd_mul_left n m⟩

theorem factors_of_thirty_five : ∀ x y : Nat, x * y = 35 → 1 < x → x < y → x = 5 := by
  intro x y h h1 hlt
  have hx : x < 36 := by
    have := Nat.le_of_dvd (by decide : 0 < 35) ⟨y, h.symm⟩; omega
  have hy : y < 36 := by
    have := Nat.le_of_dvd (by decide : 0 < 35) ⟨x, by rw [Nat.mul_comm]; exact h.symm⟩; omega
  have key : ∀ x, x < 36 → ∀ y, y < 36 → x * y = 35 → 1 < x → x < y → x = 5 := by decide +kernel
  exact key x hx y hy h h1 hlt

theorem circle_of_radius_five : ∀ x y : Nat, x * x + y * y = 25 → x ≤ 5 ∧ y ≤ 5 := by
  intro x y h
  constructor
  · apply Nat.le_of_not_lt; intro k; have := Nat.mul_le_mul k k; omega
  · apply Nat.le_of_not_lt; intro k; have := Nat.mul_le_mul k k; omega

theorem difference_of_squares : ∀ a b : Int, (a - b) * (a + b) = a * a - b * b := by
  grind

theorem sum_and_difference_fix_both : ∀ x y : Int, x + y = 10 → x - y = 4 → x = 7 ∧ y = 3 := by
  omega

theorem equal_to_its_square : ∀ x : Int, x * x = x → x = 0 ∨ x = 1 := by
  intro x h
  have : x * (x - 1) = 0 := by grind
  rcases Int.mul_eq_zero.mp this with k | k <;> omega

theorem brahmagupta_identity : ∀ a b c d : Int, (a * a + b * b) * (c * c + d * d) = (a * c - b * d) * (a * c - b * d) + (a * d + b * c) * (a * d + b * c) := by
  grind

theorem roots_of_a_quadratic : ∀ x : Int, x * x - 5 * x + 6 = 0 → x = 2 ∨ x = 3 := by
  intro x h
  have : (x - 2) * (x - 3) = 0 := by grind
  rcases Int.mul_eq_zero.mp this with k | k <;> omega

theorem a_quadratic_above_zero : ∀ x : Int, 0 < x * x + x + 1 := by
  intro x
  rcases Int.le_total 0 x with h | h
  · have := Int.mul_nonneg h h; omega
  · by_cases z : x = 0
    · subst z; decide
    · have : 0 ≤ x * (x + 1) := Int.mul_nonneg_of_nonpos_of_nonpos h (by omega)
      have : x * (x + 1) = x * x + x := by grind
      omega

theorem the_way_over_a_middle_point : ∀ a b c : Int, (a - c).natAbs ≤ (a - b).natAbs + (b - c).natAbs := by
  omega

theorem positive_squares_order_their_roots : ∀ x y : Int, 0 < x → 0 < y → x * x < y * y → x < y := by
  intro x y hx hy h
  apply Int.lt_of_not_ge
  intro k
  have := Int.mul_le_mul k k (by omega) (by omega)
  omega

theorem a_square_and_its_root_agree_mod_two : ∀ n : Int, 2 ∣ n * n - n := by
  intro n
  have : n % 2 = 0 ∨ n % 2 = 1 := by omega
  apply Int.dvd_of_emod_eq_zero
  rcases this with h | h <;> simp [h, Int.sub_emod, Int.mul_emod]

theorem whole_numbers_that_are_not_negative : ∀ n : Int, 0 ≤ n → ∃ m : Nat, n = m := by
  intro n h
  exact ⟨n.toNat, by omega⟩

theorem doubling_every_entry_doubles_the_sum : ∀ xs : List Nat, (xs.map (fun x => 2 * x)).sum = 2 * xs.sum := by
  intro xs
  induction xs with
  | nil => rfl
  | cons x xs ih => simp [ih]; omega

theorem sum_of_zeros : ∀ xs : List Nat, (∀ x ∈ xs, x = 0) → xs.sum = 0 := by
  intro xs
  induction xs with
  | nil => simp
  | cons x xs ih => simp_all

theorem no_entry_above_the_sum : ∀ (xs : List Nat) (x : Nat), x ∈ xs → x ≤ xs.sum := by
  intro xs x
  induction xs with
  | nil => simp
  | cons y ys ih => simp; grind

theorem bounded_entries_bounded_sum : ∀ (k : Nat) (xs : List Nat), (∀ x ∈ xs, x ≤ k) → xs.sum ≤ k * xs.length := by
  intro k xs
  induction xs with
  | nil => simp
  | cons x xs ih =>
    intro h
    have h1 := h x (by simp)
    have h2 := ih (fun y hy => h y (by simp [hy]))
    simp [Nat.mul_succ]
    omega

theorem fold_of_doubles : ∀ xs : List Nat, xs.foldl (fun a x => a + 2 * x) 0 = 2 * xs.sum := by
  intro xs
  have general : ∀ (xs : List Nat) (a : Nat), xs.foldl (fun a x => a + 2 * x) a = a + 2 * xs.sum := by
    intro xs
    induction xs with
    | nil => simp
    | cons x xs ih => intro a; simp [ih]; omega
  simpa using general xs 0

theorem pushing_one_by_one_reverses : ∀ (α : Type) (xs acc : List α), xs.foldl (fun a x => x :: a) acc = xs.reverse ++ acc := by
  intro α xs
  induction xs with
  | nil => simp
  | cons x xs ih => intro acc; simp [ih]

theorem kept_and_thrown_away : ∀ (α : Type) (p : α → Bool) (xs : List α), (xs.filter p).length + (xs.filter (fun x => !p x)).length = xs.length := by
  intro α p xs
  induction xs with
  | nil => rfl
  | cons x xs ih => by_cases h : p x <;> simp [h] <;> omega

theorem sieves_in_either_order : ∀ (α : Type) (p q : α → Bool) (xs : List α), (xs.filter p).filter q = (xs.filter q).filter p := by
  intro α p q xs
  simp [List.filter_filter, Bool.and_comm]

theorem map_fixing_every_entry : ∀ (α : Type) (f : α → α) (xs : List α), (∀ x ∈ xs, f x = x) → xs.map f = xs := by
  intro α f xs
  induction xs with
  | nil => simp
  | cons x xs ih => simp_all

theorem two_entries : ∀ (α : Type) (xs : List α), xs.length = 2 → ∃ a b, xs = [a, b] := by
  intro α xs h
  match xs with
  | [a, b] => exact ⟨a, b, rfl⟩

theorem short_lists_are_palindromes : ∀ (α : Type) (xs : List α), xs.length ≤ 1 → xs.reverse = xs := by
  intro α xs h
  match xs with
  | [] => rfl
  | [a] => rfl

theorem everything_has_a_last_entry : ∀ (α : Type) (xs : List α), xs ≠ [] → ∃ (ys : List α) (y : α), xs = ys ++ [y] := by
  intro α xs
  induction xs with
  | nil => simp
  | cons x xs ih =>
    intro _
    by_cases h : xs = []
    · exact ⟨[], x, by simp [h]⟩
    · have ⟨ys, y, e⟩ := ih h
      exact ⟨x :: ys, y, by simp [e]⟩

theorem turned_around_twice_joined : ∀ (α : Type) (xs ys : List α), (ys.reverse ++ xs.reverse).reverse = xs ++ ys := by
  simp

theorem lengths_in_any_order : ∀ (α : Type) (xs ys zs : List α), (xs ++ ys ++ zs).length = zs.length + ys.length + xs.length := by
  intro α xs ys zs
  simp
  omega

namespace mirrored_twice_is_the_tree
inductive Coppice.Tree where | leaf : Coppice.Tree | node : Coppice.Tree → Nat → Coppice.Tree → Coppice.Tree
@[simp] def Coppice.mirror : Coppice.Tree → Coppice.Tree | .leaf => .leaf | .node l x r => .node (Coppice.mirror r) x (Coppice.mirror l)
theorem mirrored_twice_is_the_tree : ∀ t : Coppice.Tree, Coppice.mirror (Coppice.mirror t) = t := by
  intro t
  induction t with
  | leaf => rfl
  | node l x r hl hr => simp [hl, hr]
end mirrored_twice_is_the_tree

namespace inserting_adds_one
@[simp] def Coppice.insert : Nat → List Nat → List Nat | a, [] => [a] | a, x :: xs => if a ≤ x then a :: x :: xs else x :: Coppice.insert a xs
theorem inserting_adds_one : ∀ (a : Nat) (xs : List Nat), (Coppice.insert a xs).length = xs.length + 1 := by
  intro a xs
  induction xs with
  | nil => rfl
  | cons x xs ih => simp; split <;> simp [ih]
end inserting_adds_one

theorem exclusive_or_is_associative : ∀ a b c : Bool, ((a ^^ b) ^^ c) = (a ^^ (b ^^ c)) := by
  decide

theorem majority_of_three_bits : ∀ a b c : Bool, ((a && b) || (b && c) || (c && a)) = ((a || b) && (b || c) && (c || a)) := by
  decide

theorem parity_of_four_bits : ∀ a b c d : Bool, (a ^^ b ^^ c ^^ d) = true → (a && b && c && d) = false := by
  decide

theorem three_times_is_once : ∀ (f : Bool → Bool) (b : Bool), f (f (f b)) = f b := by
  intro f b
  cases b <;> cases h : f true <;> cases k : f false <;> simp [h, k]

theorem a_bit_where_it_is_largest : ∀ f : Bool → Nat, ∃ b, ∀ c, f c ≤ f b := by
  intro f
  rcases Nat.le_total (f true) (f false) with h | h
  · exact ⟨false, fun c => by cases c <;> simp [h]⟩
  · exact ⟨true, fun c => by cases c <;> simp [h]⟩

theorem fixed_or_flipped : ∀ f : Bool → Bool, (∃ b, f b = b) ∨ ∀ b, f b = !b := by
  intro f
  cases h : f true <;> cases k : f false
  · exact Or.inl ⟨false, k⟩
  · exact Or.inr fun b => by cases b <;> simp [h, k]
  · exact Or.inl ⟨true, h⟩
  · exact Or.inl ⟨true, h⟩

theorem something_is_there : ∀ (α : Type) (o : Option α), o ≠ none → ∃ a, o = some a := by
  intro α o h
  cases o with
  | none => exact absurd rfl h
  | some a => exact ⟨a, rfl⟩

theorem both_or_neither : ∀ (α : Type) (o q : Option α), (o.isSome = true ↔ q.isSome = true) → o = none → q = none := by
  intro α o q h k
  cases o <;> cases q <;> simp_all

theorem three_places : ∀ i : Fin 3, i = 0 ∨ i = 1 ∨ i = 2 := by
  decide

theorem shifted_round_a_clock : ∀ i : Fin 12, i + 7 + 5 = i := by
  decide

theorem involutions_lose_nothing : ∀ (α : Type) (f : α → α), (∀ x, f (f x) = x) → ∀ x y, f x = f y → x = y := by
  intro α f h x y e
  rw [← h x, e, h]

theorem first_of_an_injective_pair : ∀ (α β γ : Type) (f : α → β) (g : β → γ), (∀ x y, g (f x) = g (f y) → x = y) → ∀ x y, f x = f y → x = y := by
  intro α β γ f g h x y e
  exact h x y (by rw [e])

theorem last_of_a_surjective_pair : ∀ (α β γ : Type) (f : α → β) (g : β → γ), (∀ c, ∃ a, g (f a) = c) → ∀ c, ∃ b, g b = c := by
  intro α β γ f g h c
  have ⟨a, e⟩ := h c
  exact ⟨f a, e⟩

theorem left_inverse_of_a_surjection : ∀ (α β : Type) (f : α → β) (g : β → α), (∀ x, g (f x) = x) → (∀ y, ∃ x, f x = y) → ∀ y, f (g y) = y := by
  intro α β f g h s y
  have ⟨x, e⟩ := s y
  rw [← e, h]

theorem idempotent_and_injective_is_identity : ∀ (α : Type) (f : α → α), (∀ x, f (f x) = f x) → (∀ x y, f x = f y → x = y) → f = id := by
  intro α f h i
  funext x
  exact i _ _ (h x)

theorem curry_and_back : ∀ (α β γ : Type) (f : α × β → γ), (fun p : α × β => (fun a b => f (a, b)) p.1 p.2) = f := by
  intros
  rfl

theorem no_function_onto_all_sequences : ∀ f : Nat → Nat → Nat, ∃ g : Nat → Nat, ∀ n, f n ≠ g := by
  intro f
  refine ⟨fun n => f n n + 1, fun n h => ?_⟩
  have := congrFun h n
  simp at this

theorem squares_trivial_then_commutative : ∀ (G : Type) (mul : G → G → G) (e : G), (∀ a b c, mul (mul a b) c = mul a (mul b c)) → (∀ a, mul e a = a) → (∀ a, mul a e = a) → (∀ a, mul a a = e) → ∀ a b, mul a b = mul b a := by
  intro G mul e assoc el er sq a b
  have h : mul b (mul a b) = a := by
    have twice := sq (mul a b)
    have : mul a (mul (mul a b) (mul a b)) = mul a e := by rw [twice]
    rw [er, ← assoc a (mul a b), ← assoc a a b, sq, el] at this
    exact this
  have : mul b (mul b (mul a b)) = mul b a := by rw [h]
  rw [← assoc, sq, el] at this
  exact this

theorem inverse_of_the_inverse : ∀ (G : Type) (mul : G → G → G) (e : G) (inv : G → G), (∀ a b c, mul (mul a b) c = mul a (mul b c)) → (∀ a, mul e a = a) → (∀ a, mul a e = a) → (∀ a, mul (inv a) a = e) → ∀ a, inv (inv a) = a := by
  intro G mul e inv assoc el er il a
  have h := il (inv a)
  have : mul (mul (inv (inv a)) (inv a)) a = mul e a := by rw [h]
  rw [assoc, il, er, el] at this
  exact this

theorem commuting_with_both_commutes_with_the_product : ∀ (G : Type) (mul : G → G → G) (a b c : G), (∀ x y z, mul (mul x y) z = mul x (mul y z)) → mul a b = mul b a → mul a c = mul c a → mul a (mul b c) = mul (mul b c) a := by
  intro G mul a b c assoc h k
  rw [← assoc, h, assoc, k, assoc]
