"""Which tests are left to `make test-all`, and which of their cases `make test` keeps: those whose ids begin so.

A test belongs here if it takes seconds and a part of it, or a smaller test, shows the same fault; docs/log.md says what each
costs.
"""

TYPES = ("bert-", "gpt2-", "llama-", "xlnet-", "modernbert-")
SLOW: dict[str, tuple[str, ...]] = {
    # Real trainings; a toy task shows the same (test_order_can_be_learnt_only_with_positions).
    "test_training.py::test_positions_let_the_courses_model_learn_the_order_of_words": (),
    "test_training.py::test_without_positions_no_model_can_learn_the_order_of_words": (),
    "test_training.py::test_self_attention_with_positions_learns_the_order_of_words": (),
    "test_training.py::test_a_checkpoint_under_dropout_and_penalty_goes_on_to_the_same_weights": (),
    "test_reading.py::test_a_model_that_was_trained_here_answers_the_same_in_plain_transformers": ("no padding token-gpt2",),
    # Fuzz at length.
    "test_readers_fuzz.py::test_damaged_files_give_examples_or_one_clear_line": ("imdb", "hatexplain"),
    # Every type of transformers.
    "test_reading.py::test_every_type_answers_as_for_the_text_alone": TYPES,
    "test_reading.py::test_every_type_answers_texts_and_pairs_with_token_types_as_for_each_alone": ("bert", "gpt2", "xlnet"),
    "test_softmax.py::test_the_page_of_types_is_true": ("bert", "gpt2", "llama", "deberta", "xlnet", "mpnet", "fnet"),
    "test_pieces.py::test_no_table_of_the_catalogue_changes_and_nor_do_the_logits": (
        "own, row by row-bert",
        "own, row by row-llama",
        "plain, row by row-gpt2",
        "plain, hidden keys left out-modernbert",
    ),
    # Triton's interpreter takes long.
    "test_fused.py::test_no_table_of_the_catalogue_changes_if_kernels_run": ("modernbert",),
    "test_overflow.py::test_nan_and_infinity_are_refused_whichever_module_returns_them": ("everywhere-bert", "at one token-gpt2"),
    "test_overflow.py::test_all_who_run_a_model_refuse_the_same": ("everywhere-bert", "at one token-gpt2"),
    # The real MiniLM, or all of a corpus; small models show the same.
    "test_measures.py::test_batch_size_changes_nothing": ("7",),
    "test_measures.py::test_sim_of_hidden_states_equals_a_double_loop_on_minilm": ("0", "6"),
    "test_frequency.py::test_own_kinds_are_in_the_tables_by_name_and_what_they_take_is_taken_from_the_rest": ("norms]", "heads"),
    "test_measures.py::test_four_merged_shards_equal_the_whole": (),
    "test_mixed_in.py::test_norms_on_minilm_equal_one_text_at_a_time_without_padding": (),
    # Every figure once more: other names, other shapes, other formats.
    "test_figures_hostile.py::test_every_figure_is_drawn_of_names_of_any_kind": ("right to left",),
    "test_figures_heads.py::test_every_shape_is_drawn_no_wider_than_a_page": ("one head",),
    "test_figures_output.py::test_a_chart_in_a_notebook_has_no_text_that_ends_a_script": ("html",),
    "test_figures_output.py::test_paper_and_pixels_hold_nothing_that_runs": ("sim-", "gates-"),
    "test_figures_output.py::test_a_picture_of_a_figure_holds_nothing_that_runs": ("sim", "class-", "gates", "words"),
    "test_figures_output.py::test_a_chart_as_json_is_json_that_ends_no_element_that_it_is_put_into": ("sim", "class-", "words"),
    "test_figures_output.py::test_a_page_of_a_figure_runs_nothing_and_shows_every_name": ("sim", "class-", "gates", "words"),
    "test_figures_hostile.py::test_every_figure_is_drawn_of_one_run_with_any_name": (),
    "test_figures_curves.py::test_every_curve_can_be_drawn_of_one_run_and_of_runs_with_any_name": ("sim",),
    "test_figures_classes.py::test_every_figure_of_classes_can_be_drawn_of_classes_and_runs_with_any_name": ("class-cones",),
    "test_figures_classes.py::test_the_plane_has_all_points_of_a_layer_and_says_which_layers_it_leaves_out": ("13-2", "4-13"),
    "test_cli.py::test_training_explaining_and_help_load_no_figures": ("import conoscope; conoscope.train",),
    "test_truth.py::test_captions_hold_no_number_of_their_own_and_name_no_mark_that_is_not_drawn": ("classifier]",),
    "test_boundary.py::test_reports_and_figures_are_made_without_torch": ("command0", "command1"),
    # Each study's own file runs its quick form too.
    "test_studies.py::test_the_quick_form_of_every_study_runs_without_data_and_fits_into_a_report": (
        "fosse-table-1",
        "many-classes",
    ),
    "test_studies.py::test_a_study_in_two_processes_says_what_it_says_in_one_and_keeps_its_models_where_asked": (),
    # Small disks of every size; the shim refuses at more places.
    "test_disk.py::test_a_disk_that_is_really_full_is_told_in_one_line": ("measure-8", "train-8"),
    # A browser at several widths.
    "test_report_browser.py::test_every_ink_stands_out_from_its_paper": (),
    "test_report_browser.py::test_the_page_can_be_printed_on_white_even_in_the_dark": (),
}
FILES = ("test_real_data.py", "test_report_narrow.py")
"""Files of which every test is: the published corpora, read only where they are, and a browser that makes every figure again."""


def is_slow(file: str, name: str) -> bool:
    """Whether `make test` leaves out a test, given by its file and its name with the case in brackets."""
    test, _, case = name.partition("[")
    kept = SLOW.get(f"{file}::{test}")
    return file in FILES or (kept is not None and not any(case.startswith(begin) for begin in kept))
